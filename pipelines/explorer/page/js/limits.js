// @ts-check
/** Limits on latency and speed: the best configuration within them, and the line that they draw on an axis. */
import { LIMITS } from "./axes.js";
import { coordinate } from "./series.js";

/** @typedef {import("./evaluate.js").Point} Point */
/** @typedef {import("./series.js").Series} Series */
/** @typedef {import("./axes.js").Axis} Axis */
/** @typedef {import("./state.js").State} State */

/** @param {State} state */
export function limitsOf(state) {
  return Object.entries(LIMITS)
    .map(([name, limit]) => ({ ...limit, value: /** @type {any} */ (state)[name] }))
    .filter((limit) => limit.value !== null && limit.value > 0);
}

/** @param {Point} point @param {ReturnType<typeof limitsOf>} limits */
export function isWithin(point, limits) {
  return limits.every(({ column, scale, atMost, value }) => {
    const figure = /** @type {any} */ (point.figures)[column] * scale;
    return atMost ? figure <= value : figure >= value;
  });
}

/**
 * The best point of each series within the limits: the one that does most (or costs least) on the vertical axis, of
 * equals the fastest. A row of the release or a wall point, never something between them.
 * @param {Series[]} series @param {Axis} y @param {ReturnType<typeof limitsOf>} limits
 * @returns {{ series: Series, point: Point | null }[]}
 */
export function bestWithin(series, y, limits) {
  const sign = y.lowerIsBetter ? -1 : 1;
  return series.map((one) => {
    /** @type {Point | null} */
    let best = null;
    for (const point of [...one.frontier, ...one.below]) {
      if (!isWithin(point, limits)) continue;
      const ahead = best === null ? 1 : sign * (coordinate(point, y) - coordinate(best, y));
      const faster = best !== null && point.figures.turn_latency_ms < best.figures.turn_latency_ms;
      if (ahead > 0 || (ahead === 0 && faster)) best = point;
    }
    return { series: one, point: best };
  });
}

/**
 * The strictest limit on the horizontal axis, in its unit. Turn latency, task time and end-to-end speed follow from one
 * another at one scenario, so that a limit on one is a line on the others' axes.
 * @param {ReturnType<typeof limitsOf>} limits @param {Axis} x
 * @param {{ turns: number, z: number, outputTokens: number }} knobs
 * @returns {{ value: number, label: string } | null}
 */
export function limitLine(limits, x, { turns, z, outputTokens }) {
  if (x.column === "decode_tokens_per_s_per_user") {
    const limit = limits.find((one) => one.column === x.column);
    return limit ? { value: limit.value, label: "limit" } : null;
  }
  const latencies = limits.flatMap(({ column, value }) => {
    if (column === "turn_latency_ms") return [value];
    if (column === "task_time_s") return [value / turns - z];
    return column === "e2e_tokens_per_s_per_user" ? [outputTokens / value] : [];
  });
  if (latencies.length === 0) return null;
  const latencyS = Math.min(...latencies);
  const values = /** @type {Record<string, number>} */ ({
    turn_latency_ms: latencyS,
    task_time_s: turns * (latencyS + z),
    e2e_tokens_per_s_per_user: outputTokens / latencyS,
  });
  return latencyS > 0 ? { value: values[x.column], label: "limit" } : null;
}
