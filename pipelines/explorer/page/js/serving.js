// @ts-check
/** Standard serving beside agents: the same GPUs on single requests and on the scenario's turns, on the same scales. */
import { splitSeries } from "./series.js";
import { workOut } from "./view.js";

/** @typedef {import("./lake.js").Rows} Rows */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./axes.js").Axis} Axis */
/** @typedef {import("./evaluate.js").Point} Point */

/** @param {Rows} rows @param {number} row */
function workloadOf(rows, row) {
  const of = (/** @type {string} */ name) =>
    rows.value(row, `${name}_nominal_tokens`) ?? rows.value(row, `${name}_tokens`);
  return [of("isl"), of("osl"), rows.value(row, "prefix_tokens") ?? 0].map((tokens) => Math.round(tokens)).join("/");
}

/**
 * The workloads of the standard tables, the one with most rows from tables first.
 * @param {Rows} rows @returns {{ id: string, label: string }[]}
 */
export function workloads(rows) {
  /** @type {Map<string, { all: number, told: number }>} */
  const counts = new Map();
  const sources = rows.column("source");
  for (let row = 0; row < rows.count; row += 1) {
    const id = workloadOf(rows, row);
    const count = counts.get(id) ?? { all: 0, told: 0 };
    count.all += 1;
    if (sources[row] !== "roofline") count.told += 1;
    counts.set(id, count);
  }
  return [...counts]
    .sort(([, one], [, other]) => other.told - one.told || other.all - one.all)
    .map(([id, { all }]) => {
      const [isl, osl, prefix] = id.split("/").map((text) => Number(text).toLocaleString("en-US"));
      const cached = prefix === "0" ? "" : `, ${prefix} of them cached`;
      return { id, label: `${isl} tokens in${cached}, ${osl} out (${all.toLocaleString("en-US")} rows)` };
    });
}

/** @type {Axis} */
const X = {
  title: "Decode tokens/s per user",
  short: "decode tokens/s/user",
  column: "speed",
  scale: 1,
  lowerIsBetter: false,
};
/** @type {Axis} */
const Y = {
  title: "Output tokens/s per GPU",
  short: "output tokens/s/GPU",
  column: "output_tokens_per_s_per_gpu",
  scale: 1,
  lowerIsBetter: false,
};

/** @param {Rows} rows @param {string} workload @param {State} state @param {(slug: string) => string} nameOf */
export function standardSeries(rows, workload, state, nameOf) {
  const [latency, tpot, output] = ["request_latency_ms", "tpot_ms", Y.column].map((name) => rows.column(name));
  /** @type {Point[]} */
  const points = [];
  for (let row = 0; row < rows.count; row += 1) {
    if (workloadOf(rows, row) !== workload || !(tpot[row] > 0)) continue;
    points.push({
      row,
      figures: /** @type {any} */ ({ turn_latency_ms: latency[row], speed: 1e3 / tpot[row], [Y.column]: output[row] }),
      feasible: true,
      beyondWall: false,
      atWall: false,
      reason: null,
    });
  }
  return splitSeries(rows, points, state.dtype, X, Y, state.hardware, nameOf);
}

/**
 * Both frontiers on one pair of scales.
 * @param {import("./lake.js").Index} index @param {State} state @param {Rows} agents @param {Rows} serving
 * @param {string} workload @param {(slug: string) => string} nameOf
 */
export function sideBySide(index, state, agents, serving, workload, nameOf) {
  const worked = workOut(index, { ...state, x: "decode", y: "tokens", below: false, beyond: false }, agents);
  const standard = standardSeries(serving, workload, state, nameOf);
  const draw = (/** @type {import("./series.js").Series[]} */ series, /** @type {string} */ x) =>
    series.flatMap((one) =>
      one.frontier.map((point) => ({ x: figure(point, x), y: figure(point, Y.column), series: one.id, point })),
    );
  const sides = { standard: draw(standard, "speed"), agents: draw(worked.series, "decode_tokens_per_s_per_user") };
  const all = [...sides.standard, ...sides.agents];
  const range = (/** @type {number[]} */ values) =>
    /** @type {[number, number]} */ (
      values.length ? [Math.min(...values) / 1.12, Math.max(...values) * 1.15] : [1, 10]
    );
  return {
    ...sides,
    x: { title: X.title, log: true, domain: range(all.map((one) => one.x)) },
    y: { title: Y.title, log: true, domain: range(all.map((one) => one.y)) },
    best: {
      standard: standard.map((one) => ({ label: one.label, value: highest(one.frontier) })),
      agents: worked.series.map((one) => ({ label: one.label, value: highest(one.frontier) })),
    },
  };
}

/** @param {Point[]} points */
const highest = (points) => Math.max(0, ...points.map((point) => figure(point, Y.column)));

/** @param {Point} point @param {string} column @returns {number} */
const figure = (point, column) => /** @type {any} */ (point.figures)[column];
