// @ts-check
/** Everything that the page shows, worked out from the state, the index and the rows; nothing of the document here. */
import { X_AXES, Y_AXES } from "./axes.js";
import { evaluate } from "./evaluate.js";
import { atSessions } from "./fixed_sessions.js";
import { bestWithin, limitLine, limitsOf } from "./limits.js";
import { coordinate, splitSeries, thinned } from "./series.js";

/** @typedef {import("./lake.js").Rows} Rows */
/** @typedef {import("./lake.js").Index} Index */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./evaluate.js").Point} Point */
/** @typedef {import("./chart.js").Drawn} Drawn */

/** Points beside the frontiers beyond this number are drawn once for each cell of a grid. */
export const DRAW_ALL = 6000;
const GRID = { columns: 300, lines: 180 };

/** @param {Index} index @param {State} state */
export const scenarioOf = (index, state) =>
  /** @type {Record<string, any>} */ (index.scenarios.find((one) => one.scenario === state.scenario));

/** @param {Index} index @param {State} state @returns {import("./evaluate.js").Knobs} */
export function knobsOf(index, state) {
  const scenario = scenarioOf(index, state);
  const z = state.z ?? scenario.think_time_s;
  return {
    turns: scenario.turns,
    outputTokens: scenario.output_tokens_per_turn,
    z,
    zMoved: z !== scenario.think_time_s,
    h:
      X_AXES[state.x].ofOneRow || (state.h === scenario.cache_hit_rate && scenario.cache_model === "fixed")
        ? null
        : state.h,
    closedLoop: /** @type {any} */ (index.closed_loop),
  };
}

/** @param {Index} index @param {State} state @param {Rows} rows */
export function workOut(index, state, rows) {
  const knobs = knobsOf(index, state);
  const [x, y] = [X_AXES[state.x], Y_AXES[state.y]];
  const all = evaluate(rows, knobs);
  const points = state.c === null ? all : atSessions(rows, all, state.c, state.g, knobs);
  const nameOf = (/** @type {string} */ slug) =>
    index.hardware.find((one) => one.hardware === slug)?.hardware_name ?? slug;
  const series = splitSeries(rows, points, state.dtype, x, y, state.hardware, nameOf);
  const limits = limitsOf(state);
  const best = bestWithin(series, y, limits);
  const domain = domainOf(series, state, x, y);

  const transform = (/** @type {boolean} */ log) => (log ? Math.log : (/** @type {number} */ value) => value);
  const [tx, ty] = [transform(state.logX), transform(state.logY)];
  /** @param {"below" | "beyond"} kind */
  const cloud = (kind) => {
    const drawn = series.flatMap((one) => one[kind].map((point) => draw(one.id, point)));
    return { total: drawn.length, drawn };
  };
  /** @param {string} id @param {Point} point @returns {Drawn} */
  const draw = (id, point) => ({ x: coordinate(point, x), y: coordinate(point, y), series: id, point });
  const [below, beyond] = [cloud("below"), cloud("beyond")];
  const isInside = (/** @type {Drawn} */ one) =>
    one.x >= domain.x[0] && one.x <= domain.x[1] && one.y >= domain.y[0] && one.y <= domain.y[1];
  /** @param {{ total: number, drawn: Drawn[] }} of */
  const shown = (of) => {
    const inside = of.drawn.filter(isInside);
    if (inside.length <= DRAW_ALL) return { inside: inside.length, drawn: inside };
    const box = {
      x: /** @type {[number, number]} */ (domain.x.map(tx)),
      y: /** @type {[number, number]} */ (domain.y.map(ty)),
    };
    // each series has its own cells, so that none hides another
    const drawn = series.flatMap((one) =>
      thinned(
        inside.filter((each) => each.series === one.id),
        (each) => tx(each.x),
        (each) => ty(each.y),
        box,
        GRID,
      ),
    );
    return { inside: inside.length, drawn };
  };
  const belowShown = shown(below);
  const beyondShown = shown(beyond);
  const line = limitLine(limits, x, knobs);
  /** @type {import("./chart.js").Layers} */
  const layers = {
    frontier: series.flatMap((one) => one.frontier.map((point) => draw(one.id, point))),
    below: state.below ? belowShown.drawn : [],
    beyond: state.beyond ? beyondShown.drawn : [],
    walls: state.beyond ? series.flatMap((one) => one.walls.map((point) => draw(one.id, point))).filter(isInside) : [],
    best: limits.length === 0 ? [] : best.flatMap((one) => (one.point ? [draw(one.series.id, one.point)] : [])),
    excluded: line ? [x.lowerIsBetter ? { x: line.value, x2: domain.x[1] } : { x: domain.x[0], x2: line.value }] : [],
    limits: line ? [{ x: line.value, label: line.label }] : [],
  };
  const drawnBeside = layers.below.length + layers.beyond.length;
  const totalBeside = (state.below ? below.total : 0) + (state.beyond ? beyond.total : 0);
  const insideBeside = (state.below ? belowShown.inside : 0) + (state.beyond ? beyondShown.inside : 0);
  return {
    scenario: scenarioOf(index, state),
    knobs,
    x,
    y,
    points,
    series,
    limits,
    best,
    domain,
    layers,
    counts: {
      rows: rows.count,
      configurations: points.length,
      frontier: layers.frontier.length,
      below: below.total,
      beyond: beyond.total,
      impossible: series.reduce((sum, one) => sum + one.impossible.length, 0),
      outside: totalBeside - insideBeside,
      thinned: insideBeside - drawnBeside,
    },
  };
}

/** @typedef {ReturnType<typeof workOut>} Worked */

/**
 * The plot holds the frontiers with some room; what lies far beyond them is counted, not drawn.
 * @param {import("./series.js").Series[]} series @param {State} state
 * @param {import("./axes.js").Axis} x @param {import("./axes.js").Axis} y
 * @returns {{ x: [number, number], y: [number, number] }}
 */
function domainOf(series, state, x, y) {
  let from = series.flatMap((one) => one.frontier);
  if (from.length === 0) from = series.flatMap((one) => one.beyond);
  return {
    x: rangeOf(
      from.map((point) => coordinate(point, x)),
      state.logX,
      x.lowerIsBetter ? 0.1 : 0.04,
    ),
    y: rangeOf(
      from.map((point) => coordinate(point, y)),
      state.logY,
      0.06,
      !state.logY,
    ),
  };
}

/** @param {number[]} values @param {boolean} log @param {number} room @param {boolean} [fromZero] @returns {[number, number]} */
function rangeOf(values, log, room, fromZero = false) {
  if (values.length === 0) return log ? [1, 10] : [0, 1];
  const low = values.reduce((one, other) => Math.min(one, other));
  const high = values.reduce((one, other) => Math.max(one, other));
  if (log) {
    const span = Math.max(Math.log(high / low), 0.2);
    return [low / Math.exp(0.05 * span), high * Math.exp(room * span)];
  }
  const span = high - low || high || 1;
  return [fromZero ? 0 : Math.max(0, low - 0.05 * span), high + room * (fromZero ? high : span)];
}
