// @ts-check
/** Single turns of a task (Steps 4 and 5), as `tests/explorer/page_equations.py` has them. */
import { curveKey, curvesOf } from "./evaluate.js";

/** @typedef {import("./lake.js").Rows} Rows */
/** @typedef {import("./evaluate.js").Point} Point */

/**
 * What the prefill of each turn computes; arrays of one entry a turn.
 * @typedef {object} Prefills
 * @property {number[]} new_on_hit @property {number[]} new_on_miss
 * @property {number[]} flops_on_hit @property {number[]} flops_on_miss
 */
/**
 * @typedef {object} TurnWork
 * @property {number[]} turn @property {number[]} context_tokens
 * @property {number} mean_context_tokens @property {number} peak_context_tokens
 * @property {boolean} kv_is_linear
 * @property {number[]} evaluated_on_hit @property {number[]} evaluated_on_miss places of the turns evaluated, from 0
 * @property {Prefills} agg @property {Prefills} disagg
 */

const ON_HIT = ["hit_first_ms", "hit_second_ms", "hit_last_ms"];
const ON_MISS = ["miss_first_ms", "miss_middle_ms", "miss_last_ms"];

/**
 * Time that one more FLOP of attention takes, from two hits of as many new tokens.
 * @param {number} second @param {number} last @param {number} flopsSecond @param {number} flopsLast
 */
export const msPerFlop = (second, last, flopsSecond, flopsLast) =>
  flopsLast === flopsSecond ? 0 : (last - second) / (flopsLast - flopsSecond);

/**
 * How much longer each turn takes than the mean turn when it hits, in ms.
 * @param {number[]} evaluated the same of the first, second and last turn @param {number[]} flops
 */
export function hitDifferences([first, second, last], flops) {
  const place = Math.min(1, flops.length - 1);
  const slope = msPerFlop(second, last, flops[place], flops[flops.length - 1]);
  return flops.map((each, turn) => (turn === 0 ? first : second + slope * (each - flops[place])));
}

/**
 * The same when it misses: attention by its FLOPs, the rest linear in the new tokens between the turns evaluated.
 * @param {number[]} evaluated @param {number[]} places @param {number[]} fresh new tokens @param {number[]} flops
 * @param {number} slope from `msPerFlop` of hits
 */
export function missDifferences(evaluated, places, fresh, flops, slope) {
  const rest = evaluated.map((each, at) => each - slope * flops[places[at]]);
  return fresh.map((tokens, turn) => {
    let at = 0;
    while (at < places.length - 2 && tokens > fresh[places[at + 1]]) at += 1;
    const [low, high] = [fresh[places[at]], fresh[places[at + 1]]];
    const share = high === low ? 0 : (tokens - low) / (high - low);
    return rest[at] + share * (rest[at + 1] - rest[at]) + slope * flops[turn];
  });
}

/**
 * The rows between which a point lies, and how far from the first; twice its own row where it is one.
 * @param {Rows} rows @param {Point} point @param {Point[]} points all of the chart
 * @returns {{ low: number, high: number, share: number } | null} null where the rows are not among the points
 */
function endsOf(rows, point, points) {
  if (point.ends) return point.ends;
  if (!point.atWall) return { low: point.row, high: point.row, share: 0 };
  const key = curveKey(rows, point);
  const [curve] = curvesOf(
    rows,
    points.filter((one) => curveKey(rows, one) === key),
  );
  const at = curve?.findIndex((one, place) => one.feasible && curve[place + 1]?.beyondWall) ?? -1;
  if (at < 0) return null;
  const [low, high] = [curve[at], curve[at + 1]];
  const span = high.figures.sessions - low.figures.sessions;
  return { low: low.row, high: high.row, share: (point.figures.sessions - low.figures.sessions) / span };
}

/**
 * Figures of each turn of a task at a point: on a hit and on a miss of that turn, all others as the scenario has them.
 * @param {Rows} rows the release's rows @param {Rows} differences `ON_HIT` and `ON_MISS`, row by row
 * @param {TurnWork} work @param {Point} point @param {Point[]} points
 */
export function turnFigures(rows, differences, work, point, points) {
  const ends = endsOf(rows, point, points);
  if (ends === null) return null;
  const evaluated = (/** @type {string[]} */ names) =>
    names.map((name) => {
      const values = differences.column(name);
      return ends.share === 0 ? values[ends.low] : (1 - ends.share) * values[ends.low] + ends.share * values[ends.high];
    });
  const [onHit, onMiss] = [evaluated(ON_HIT), evaluated(ON_MISS)];
  if ([...onHit, ...onMiss].some(Number.isNaN)) return null;
  const prefills = rows.value(point.row, "serving_mode") === "agg" ? work.agg : work.disagg;
  const { flops_on_hit: flops } = prefills;
  const slope = msPerFlop(onHit[1], onHit[2], flops[work.evaluated_on_hit[1]], flops[flops.length - 1]);
  const hit = hitDifferences(onHit, flops);
  const miss = missDifferences(onMiss, work.evaluated_on_miss, prefills.new_on_miss, prefills.flops_on_miss, slope);
  const { turn_latency_ms: latency, ttft_ms: ttft } = point.figures;
  return work.turn.map((turn, at) => ({
    turn,
    context_tokens: work.context_tokens[at],
    kv_bytes: work.kv_is_linear ? kvAt(rows, point.row, work, at) : NaN,
    new_on_hit: prefills.new_on_hit[at],
    new_on_miss: prefills.new_on_miss[at],
    ttft_on_hit_ms: ttft + hit[at],
    ttft_on_miss_ms: ttft + miss[at],
    latency_on_hit_ms: latency + hit[at],
    latency_on_miss_ms: latency + miss[at],
  }));
}

/** @typedef {NonNullable<ReturnType<typeof turnFigures>>[number]} Turn */

/**
 * KV of a session at a turn's context, on the line through what the release has at the mean and at the peak.
 * @param {Rows} rows @param {number} row @param {TurnWork} work @param {number} at
 */
function kvAt(rows, row, work, at) {
  const [mean, peak] = ["kv_bytes_per_session_mean", "kv_bytes_per_session_peak"].map((name) => rows.column(name)[row]);
  const { context_tokens: context, mean_context_tokens: meanTokens, peak_context_tokens: peakTokens } = work;
  return mean + ((context[at] - meanTokens) * (peak - mean)) / (peakTokens - meanTokens);
}
