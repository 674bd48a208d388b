// @ts-check
/** The release's rows at the chosen pause, hit rate and sessions: what the chart, the tables and the limits read. */
import {
  activityFraction,
  atWall,
  figuresOfSessions,
  inFlightBetween,
  inFlightPerStation,
  latencyAtHitRate,
  rateAtHitRate,
  sessionsThatFill,
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

/**
 * A point as it is drawn.
 * @typedef {object} Point
 * @property {number} row the row of the release that says its configuration
 * @property {Record<string, number>} figures under the names of the columns
 * @property {boolean} feasible
 * @property {boolean} beyondWall its one fault is memory for the KV of its sessions
 * @property {boolean} atWall it lies where its curve meets the KV wall, between two rows
 * @property {string | null} reason against it
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
  const price = rows.column("usd_per_task");
  const publishedTasks = rows.column("turns_per_s_per_gpu");
  /** @type {Point[]} */
  const points = [];
  for (let row = 0; row < rows.count; row += 1) {
    if (!asPublished && interpolated[row]) continue; // the wall moves: its points are put anew
    const { sessions, latencyS } = at(row, knobs);
    const figures = figuresOf(rows, row, sessions, latencyS, knobs);
    if (price[row] > 0) {
      // what a task costs goes with the GPU time that it takes
      figures.usd_per_task = (price[row] * publishedTasks[row]) / figures.turns_per_s_per_gpu;
    }
    const published = reasons[row];
    const wallMatters = published === null || WALL_REASONS.includes(published);
    const over = sessions > rows.column("max_sessions")[row] * (1 + WALL_TOLERANCE);
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
function reader(rows) {
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
export function stationsOf(rows, row) {
  const dp = rows.column("dp")[row];
  return Number.isNaN(dp) ? rows.column("decode_workers")[row] * rows.column("decode_dp")[row] : dp;
}

/** @param {Rows} rows @param {number} row @param {number} sessions @param {number} latencyS @param {Knobs} knobs */
export function figuresOf(rows, row, sessions, latencyS, knobs) {
  const gpus = rows.column("gpus_per_replica")[row];
  /** @type {Record<string, number>} */
  const figures = figuresOfSessions(sessions, latencyS, knobs.z, knobs.turns, knobs.outputTokens, gpus);
  figures.max_sessions = rows.column("max_sessions")[row];
  if (knobs.h === null) {
    const tpot = rows.column("tpot_ms")[row];
    figures.ttft_ms = rows.column("ttft_ms")[row];
    figures.tpot_ms = tpot;
    figures.decode_tokens_per_s_per_user = tpot > 0 ? 1e3 / tpot : NaN;
  }
  return figures;
}

/**
 * Points of each curve in the order of its load: configurations differ between curves, only concurrency within one.
 * @param {Rows} rows @param {Point[]} points @returns {Point[][]}
 */
export function curvesOf(rows, points) {
  const number = rows.column("curve");
  const batch = rows.column("batch_per_rank");
  /** @type {Map<string, Point[]>} */
  const curves = new Map();
  for (const point of points) {
    if (point.atWall) continue;
    const key = `${rows.hardware[point.row]} ${number[point.row]}`;
    const curve = curves.get(key);
    if (curve) curve.push(point);
    else curves.set(key, [point]);
  }
  for (const curve of curves.values()) {
    curve.sort(
      (one, other) => batch[one.row] - batch[other.row] || one.figures.sessions - other.figures.sessions,
    );
  }
  return [...curves.values()];
}

/**
 * Where the curves meet the KV wall at the knobs. Only where memory holds the same number of sessions all along the
 * curve: a limit on the requests in flight (decode pools) does not stand in the release.
 * @param {Rows} rows @param {Point[]} points @param {Knobs} knobs
 */
function wallPoints(rows, points, knobs) {
  /** @type {Point[]} */
  const found = [];
  for (const curve of curvesOf(rows, points)) {
    const at = curve.findIndex((point, place) => point.feasible && curve[place + 1]?.beyondWall);
    if (at < 0) continue;
    const [low, high] = [curve[at], curve[at + 1]];
    const limit = low.figures.max_sessions;
    const [from, to] = [low.figures.sessions, high.figures.sessions];
    if (high.figures.max_sessions !== limit || to <= from || limit <= from) continue;
    const { sessions, latency } = atWall(from, low.figures.turn_latency_ms, to, high.figures.turn_latency_ms, limit);
    const figures = figuresOf(rows, low.row, sessions, latency / 1e3, knobs);
    for (const name of ["ttft_ms", "tpot_ms"]) {
      const share = (sessions - from) / (to - from);
      if (name in low.figures) figures[name] = low.figures[name] + share * (high.figures[name] - low.figures[name]);
    }
    if (figures.tpot_ms > 0) figures.decode_tokens_per_s_per_user = 1e3 / figures.tpot_ms;
    if (low.figures.usd_per_task > 0) {
      figures.usd_per_task =
        (low.figures.usd_per_task * low.figures.turns_per_s_per_gpu) / figures.turns_per_s_per_gpu;
    }
    found.push({ row: low.row, figures, feasible: true, beyondWall: false, atWall: true, reason: null });
  }
  return found;
}

/**
 * Each configuration at a fixed number of sessions on so many GPUs (Step 7): the replicas that fit share them evenly,
 * figures are those of the fuller replicas. Between two rows R is linear in the requests in flight; nothing is said
 * past the ends of a curve.
 * @param {Rows} rows @param {Point[]} points every row at the knobs, from `evaluate`
 * @param {number} sessions @param {number} gpus @param {Knobs} knobs
 */
export function atSessions(rows, points, sessions, gpus, knobs) {
  /** @type {Point[]} */
  const found = [];
  for (const curve of curvesOf(rows, points)) {
    const replicas = Math.floor(gpus / rows.column("gpus_per_replica")[curve[0].row]);
    if (replicas === 0) continue;
    const share = Math.ceil(sessions / replicas);
    const wanted = Math.min(share, capOf(rows, curve));
    if (wanted <= 0) continue;
    const point = solved(rows, curve, wanted, knobs);
    if (point === null) continue;
    const short = wanted < share;
    found.push({ ...point, feasible: point.feasible && !short, beyondWall: short, admitted: short ? wanted : undefined });
  }
  return found;
}

/**
 * Sessions that a curve's memory holds; infinite where its rows end before the wall.
 * @param {Rows} rows @param {Point[]} curve
 */
function capOf(rows, curve) {
  if (rows.column("serving_mode")[curve[0].row] === "agg") {
    return Math.max(...curve.map((point) => point.figures.max_sessions));
  }
  if (!curve.some((point) => point.beyondWall)) return Infinity;
  return Math.max(0, ...curve.filter((point) => point.feasible).map((point) => point.figures.sessions));
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
    return { ...base, row: from.row, figures: moved(rows, from, wanted, from.figures.turn_latency_ms, knobs) };
  }
  const [low, high] = [curve[at], curve[at + 1]];
  if (!isRunnable(low) || !isRunnable(high)) return null;
  const stations = stationsOf(rows, low.row);
  const readRow = reader(rows);
  const [b0, b1] = [low, high].map((point) => readRow(point.row, knobs).inFlight);
  const [r0, r1] = [low, high].map((point) => point.figures.turn_latency_ms / 1e3);
  const b = inFlightBetween(wanted / stations, b0, r0, b1, r1, knobs.z, knobs.closedLoop);
  const share = b1 === b0 ? 0 : (b - b0) / (b1 - b0);
  const latencyMs = low.figures.turn_latency_ms + share * (high.figures.turn_latency_ms - low.figures.turn_latency_ms);
  const figures = moved(rows, low, wanted, latencyMs, knobs);
  for (const name of ["ttft_ms", "tpot_ms"]) {
    if (name in low.figures) figures[name] = low.figures[name] + share * (high.figures[name] - low.figures[name]);
  }
  if (figures.tpot_ms > 0) figures.decode_tokens_per_s_per_user = 1e3 / figures.tpot_ms;
  return { ...base, row: low.row, figures };
}

/** @param {Rows} rows @param {Point} point @param {number} sessions @param {number} latencyMs @param {Knobs} knobs */
function moved(rows, point, sessions, latencyMs, knobs) {
  const figures = figuresOf(rows, point.row, sessions, latencyMs / 1e3, knobs);
  if (point.figures.usd_per_task > 0) {
    figures.usd_per_task =
      (point.figures.usd_per_task * point.figures.turns_per_s_per_gpu) / figures.turns_per_s_per_gpu;
  }
  return figures;
}
