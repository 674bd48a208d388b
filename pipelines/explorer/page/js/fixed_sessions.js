// @ts-check
/** The configurations at a number of sessions that the reader fixes: the operating points of Step 7. */
import { inFlightBetween } from "./equations.js";
import { WALL_TOLERANCE, between, curveKey, curvesOf, figuresOf, memoryLimits, reader } from "./evaluate.js";

/** @typedef {import("./lake.js").Rows} Rows */
/** @typedef {import("./evaluate.js").Point} Point */
/** @typedef {import("./evaluate.js").Knobs} Knobs */

/**
 * Each configuration at a fixed number of sessions on so many GPUs (Step 7): the replicas that fit share them evenly,
 * figures are those of the fuller replicas. Between two rows R is linear in the requests in flight; nothing is said
 * past the ends of a curve.
 * @param {Rows} rows @param {Point[]} points every row at the knobs, from `evaluate`
 * @param {number} sessions @param {number} gpus @param {Knobs} knobs
 */
export function atSessions(rows, points, sessions, gpus, knobs) {
  /** @type {Map<string, number>} */
  const walls = new Map();
  for (const point of points) if (point.atWall) walls.set(curveKey(rows, point), point.figures.sessions);
  /** @type {Point[]} */
  const found = [];
  for (const curve of curvesOf(rows, points)) {
    const replicas = Math.floor(gpus / rows.column("gpus_per_replica")[curve[0].row]);
    if (replicas === 0) continue;
    const share = Math.ceil(sessions / replicas);
    const wanted = Math.min(share, capOf(rows, curve, walls.get(curveKey(rows, curve[0])) ?? 0));
    if (wanted <= 0) continue;
    const point = solved(rows, curve, wanted, knobs);
    if (point === null) continue;
    const short = wanted < share;
    found.push({
      ...point,
      feasible: point.feasible && !short,
      beyondWall: short,
      admitted: short ? wanted : undefined,
    });
  }
  return found;
}

/**
 * Sessions that a curve's memory holds; infinite where its rows end before the wall.
 * @param {Rows} rows @param {Point[]} curve @param {number} wall sessions at its wall; 0 where none was put
 */
function capOf(rows, curve, wall) {
  if (memoryLimits(rows, curve[0].row)[1] === Infinity) {
    return Math.max(...curve.map((point) => point.figures.max_sessions));
  }
  if (!curve.some((point) => point.beyondWall)) return Infinity;
  const held = Math.max(wall, ...curve.filter((point) => point.feasible).map((point) => point.figures.sessions));
  // where even a batch of one is beyond the wall, fewer sessions are served as it would be, and so many of them fit
  const first = curve[0];
  const isAlone = first.beyondWall && rows.column("batch_per_rank")[first.row] <= 1;
  return held > 0 || !isAlone ? held : first.figures.max_sessions;
}

/**
 * @param {Rows} rows @param {Point[]} curve @param {number} wanted @param {Knobs} knobs
 * @returns {Point | null} null where the curve has no answer, or one that cannot be run at any load
 */
function solved(rows, curve, wanted, knobs) {
  const at = curve.findIndex(
    (point, place) => point.figures.sessions <= wanted && wanted <= (curve[place + 1]?.figures.sessions ?? -Infinity),
  );
  const isRunnable = (/** @type {Point} */ point) => point.feasible || point.beyondWall;
  const base = { feasible: true, beyondWall: false, atWall: false, reason: null };
  if (at < 0) {
    const first = curve[0];
    // a batch of one serves a single session as well as it ever will
    const alone = wanted < first.figures.sessions && rows.column("batch_per_rank")[first.row] <= 1;
    const last = curve[curve.length - 1];
    const isEnd = Math.abs(wanted - last.figures.sessions) <= WALL_TOLERANCE * wanted;
    if (!alone && !isEnd) return null;
    const from = alone ? first : last;
    if (!isRunnable(from)) return null;
    return {
      ...base,
      row: from.row,
      figures: figuresOf(rows, from.row, wanted, from.figures.turn_latency_ms / 1e3, knobs),
    };
  }
  const [low, high] = [curve[at], curve[at + 1]];
  if (!isRunnable(low) || !isRunnable(high)) return null;
  const read = reader(rows);
  const [{ inFlight: b0, stations }, { inFlight: b1 }] = [low, high].map((point) => read(point.row, knobs));
  const [r0, r1] = [low, high].map((point) => point.figures.turn_latency_ms / 1e3);
  const b = inFlightBetween(wanted / stations, b0, r0, b1, r1, knobs.z, knobs.closedLoop);
  const share = b1 === b0 ? 0 : (b - b0) / (b1 - b0);
  const ends = { low: low.row, high: high.row, share };
  return { ...base, row: low.row, ends, figures: between(rows, low, high, share, wanted, knobs) };
}
