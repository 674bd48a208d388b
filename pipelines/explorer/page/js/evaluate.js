// @ts-check
/** The release's rows at the chosen pause, hit rate and sessions: what the chart, the tables and the limits read. */
import {
  activityFraction,
  figuresOfSessions,
  inFlightPerStation,
  latencyAtHitRate,
  rateAtHitRate,
  sessionsAtWall,
  sessionsThatFill,
  sessionsThatFit,
} from "./equations.js";

/** @typedef {import("./lake.js").Rows} Rows */
/** @typedef {import("./equations.js").ClosedLoop} ClosedLoop */

/** Reasons that a lower load mends: the row lies beyond the KV wall. */
export const WALL_REASONS = ["kv_capacity", "kv_capacity_below_table", "host_memory_capacity"];
/** A figure on the wall itself must not fall over it by rounding. */
export const WALL_TOLERANCE = 1e-9;

/**
 * @typedef {object} Knobs
 * @property {number} turns @property {number} outputTokens
 * @property {number} z think time in s
 * @property {number | null} h hit rate; null as published
 * @property {boolean} zMoved
 * @property {ClosedLoop} closedLoop
 */

/** @typedef {ReturnType<typeof figuresOfSessions>} Figures */

/**
 * A point as it is drawn.
 * @typedef {object} Point
 * @property {number} row the row of the release that says its configuration
 * @property {Figures} figures under the names of the columns; NaN where one is not known
 * @property {boolean} feasible
 * @property {boolean} beyondWall its one fault is memory for the KV of its sessions
 * @property {boolean} atWall it lies where its curve meets the KV wall, between two rows
 * @property {string | null} reason against it
 * @property {{ low: number, high: number, share: number }} [ends] the rows between which it lies, and how far from the first
 * @property {number} [admitted] sessions that memory holds where more are wanted
 */

/**
 * Every row of the release at the knobs, in the order of the rows; a moved wall's points come behind them.
 * @param {Rows} rows @param {Knobs} knobs @returns {Point[]}
 */
export function evaluate(rows, knobs) {
  const at = reader(rows);
  const asPublished = !knobs.zMoved && knobs.h === null;
  const reasons = rows.column("infeasible_reason");
  const interpolated = rows.column("interpolated");
  /** @type {Point[]} */
  const points = [];
  for (let row = 0; row < rows.count; row += 1) {
    if (!asPublished && interpolated[row]) continue; // the wall moves: its points are put anew
    const { sessions, latencyS } = at(row, knobs);
    const figures = figuresOf(rows, row, sessions, latencyS, knobs);
    const published = reasons[row];
    const wallMatters = published === null || WALL_REASONS.includes(published);
    const over = sessions > figures.max_sessions * (1 + WALL_TOLERANCE);
    const beyondWall = wallMatters && (asPublished ? published !== null : over);
    points.push({
      row,
      figures,
      feasible: wallMatters && !beyondWall,
      beyondWall,
      atWall: Boolean(interpolated[row]),
      reason: wallMatters ? (beyondWall ? (published ?? "kv_capacity") : null) : published,
    });
  }
  return asPublished ? points : points.concat(wallPoints(rows, points, knobs));
}

/**
 * Sessions and turn latency of a row at the knobs.
 * @param {Rows} rows
 * @returns {(row: number, knobs: Knobs) => { sessions: number, latencyS: number, inFlight: number, stations: number }}
 */
export function reader(rows) {
  const [latency, rate, sessions, hit, allHits, allMisses, rateHits, rateMisses] = [
    "turn_latency_ms",
    "serving_requests_per_s",
    "sessions",
    "cache_hit_rate",
    "turn_latency_all_hits_ms",
    "turn_latency_all_misses_ms",
    "serving_requests_per_s_all_hits",
    "serving_requests_per_s_all_misses",
  ].map((name) => rows.column(name));
  return (row, knobs) => {
    let latencyS = latency[row] / 1e3;
    let requests = rate[row];
    if (knobs.h !== null) {
      latencyS = latencyAtHitRate(knobs.h, hit[row], latencyS, allHits[row] / 1e3, allMisses[row] / 1e3);
      requests = rateAtHitRate(knobs.h, hit[row], requests, rateHits[row], rateMisses[row]);
    }
    const stations = stationsOf(rows, row);
    const inFlight = inFlightPerStation(requests, latencyS, stations);
    if (!knobs.zMoved && knobs.h === null) return { sessions: sessions[row], latencyS, inFlight, stations };
    const rho = activityFraction(latencyS, knobs.z);
    return { sessions: sessionsThatFill(inFlight, rho, stations, knobs.closedLoop), latencyS, inFlight, stations };
  };
}

/**
 * Stations at which requests meet: attention ranks, of the decode pool where there is one.
 * @param {Rows} rows @param {number} row
 */
function stationsOf(rows, row) {
  const dp = rows.column("dp")[row];
  return Number.isNaN(dp) ? rows.column("decode_workers")[row] * rows.column("decode_dp")[row] : dp;
}

/**
 * Sessions whose KV has a place while they pause, and requests in flight whose KV has one; infinite where no limit.
 * @param {Rows} rows @param {number} row @returns {[number, number]}
 */
export function memoryLimits(rows, row) {
  if (!rows.names.has("max_parked_sessions")) return [rows.column("max_sessions")[row], Infinity]; // older releases
  const [parked, inFlight] = ["max_parked_sessions", "max_in_flight_requests"].map((name) => rows.column(name)[row]);
  return [Number.isNaN(parked) ? Infinity : parked, Number.isNaN(inFlight) ? Infinity : inFlight];
}

/** @param {Rows} rows @param {number} row @param {number} sessions @param {number} latencyS @param {Knobs} knobs */
export function figuresOf(rows, row, sessions, latencyS, knobs) {
  const gpus = rows.column("gpus_per_replica")[row];
  const figures = figuresOfSessions(sessions, latencyS, knobs.z, knobs.turns, knobs.outputTokens, gpus);
  figures.max_sessions =
    knobs.zMoved || knobs.h !== null
      ? sessionsThatFit(...memoryLimits(rows, row), figures.activity_fraction)
      : rows.column("max_sessions")[row];
  if (knobs.h === null) {
    const tpot = rows.column("tpot_ms")[row];
    figures.ttft_ms = rows.column("ttft_ms")[row];
    figures.tpot_ms = tpot;
    figures.decode_tokens_per_s_per_user = tpot > 0 ? 1e3 / tpot : NaN;
  }
  figures.usd_per_task = rows.column("usd_per_gpu_hour")[row] / figures.tasks_per_hour_per_gpu;
  return figures;
}

/** @param {Rows} rows @param {Point} point */
export const curveKey = (rows, point) => `${rows.hardware[point.row]} ${rows.column("curve")[point.row]}`;

/**
 * Points of each curve in the order of its load: configurations differ between curves, only concurrency within one.
 * @param {Rows} rows @param {Point[]} points @returns {Point[][]}
 */
export function curvesOf(rows, points) {
  const batch = rows.column("batch_per_rank");
  /** @type {Map<string, Point[]>} */
  const curves = new Map();
  for (const point of points) {
    if (point.atWall) continue;
    const key = curveKey(rows, point);
    const curve = curves.get(key);
    if (curve) curve.push(point);
    else curves.set(key, [point]);
  }
  for (const curve of curves.values()) {
    curve.sort((one, other) => batch[one.row] - batch[other.row] || one.figures.sessions - other.figures.sessions);
  }
  return [...curves.values()];
}

/**
 * Where the curves meet the KV wall at the knobs: between the last row that fits and the next.
 * @param {Rows} rows @param {Point[]} points @param {Knobs} knobs
 */
function wallPoints(rows, points, knobs) {
  /** @type {Point[]} */
  const found = [];
  for (const curve of curvesOf(rows, points)) {
    const at = curve.findIndex((point, place) => point.feasible && curve[place + 1]?.beyondWall);
    if (at < 0) continue;
    const [low, high] = [curve[at], curve[at + 1]];
    const [from, to] = [low.figures.sessions, high.figures.sessions];
    if (to <= from) continue;
    const [r0, r1] = [low, high].map((point) => point.figures.turn_latency_ms / 1e3);
    const sessions = sessionsAtWall(from, r0, to, r1, knobs.z, ...memoryLimits(rows, low.row));
    if (sessions <= from) continue;
    const share = (sessions - from) / (to - from);
    const figures = between(rows, low, high, share, sessions, knobs);
    const ends = { low: low.row, high: high.row, share };
    found.push({ row: low.row, ends, figures, feasible: true, beyondWall: false, atWall: true, reason: null });
  }
  return found;
}

/**
 * Figures on the line between two rows of a curve.
 * @param {Rows} rows @param {Point} low @param {Point} high @param {number} share @param {number} sessions
 * @param {Knobs} knobs
 */
export function between(rows, low, high, share, sessions, knobs) {
  const along = (/** @type {"turn_latency_ms" | "ttft_ms" | "tpot_ms"} */ name) =>
    low.figures[name] + share * (high.figures[name] - low.figures[name]);
  const figures = figuresOf(rows, low.row, sessions, along("turn_latency_ms") / 1e3, knobs);
  if (knobs.h === null) {
    figures.ttft_ms = along("ttft_ms");
    figures.tpot_ms = along("tpot_ms");
    figures.decode_tokens_per_s_per_user = figures.tpot_ms > 0 ? 1e3 / figures.tpot_ms : NaN;
  }
  return figures;
}
