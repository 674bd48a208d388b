// @ts-check
/**
 * The pipeline's equations, function for function: `transforms/equations/closed_loop.py` and
 * `curve.py` and `tests/explorer/page_equations.py` say what each means and where it comes from. Times in seconds, rates per second, figures of one replica.
 */

/** @typedef {"arrival" | "article"} ClosedLoop */

/** Keeps a division by the distance of two hit rates finite where they are the same. */
const TINY = 1e-12;

/** Step 1: rho = R / (R + Z). @param {number} turnLatencyS @param {number} thinkTimeS */
export const activityFraction = (turnLatencyS, thinkTimeS) => turnLatencyS / (turnLatencyS + thinkTimeS);

/** Little's law: requests in flight at one station. @param {number} rate @param {number} latencyS @param {number} stations */
export const inFlightPerStation = (rate, latencyS, stations) => (rate * latencyS) / stations;

/**
 * Sessions that keep so many requests in flight at each station (arrival theorem; the article's C = B/rho).
 * @param {number} inFlight @param {number} rho @param {number} stations @param {ClosedLoop} closedLoop
 */
export function sessionsThatFill(inFlight, rho, stations, closedLoop) {
  if (closedLoop === "article") return (stations * inFlight) / rho;
  return stations * Math.max(inFlight, 1 + (inFlight - 1) / rho);
}

/**
 * A latency at another hit rate: linear from all misses (0) through the published point to all hits (1).
 * @param {number} hitRate @param {number} published @param {number} latency @param {number} allHits
 * @param {number} allMisses
 */
export function latencyAtHitRate(hitRate, published, latency, allHits, allMisses) {
  if (hitRate === published) return latency;
  if (hitRate > published) return allHits + ((latency - allHits) * (1 - hitRate)) / Math.max(1 - published, TINY);
  return allMisses + ((latency - allMisses) * hitRate) / Math.max(published, TINY);
}

/**
 * Requests a second at another hit rate: the time per request goes as the latency does.
 * @param {number} hitRate @param {number} published @param {number} rate @param {number} allHits
 * @param {number} allMisses
 */
export const rateAtHitRate = (hitRate, published, rate, allHits, allMisses) =>
  1 / latencyAtHitRate(hitRate, published, 1 / rate, 1 / allHits, 1 / allMisses);

/**
 * b at which c sessions share a station, between two neighbouring rows of a curve (Step 7); R is linear in b there.
 * @param {number} sessionsPerStation @param {number} inFlight0 @param {number} latency0S @param {number} inFlight1
 * @param {number} latency1S @param {number} thinkTimeS @param {ClosedLoop} closedLoop
 */
export function inFlightBetween(
  sessionsPerStation,
  inFlight0,
  latency0S,
  inFlight1,
  latency1S,
  thinkTimeS,
  closedLoop,
) {
  const span = inFlight1 - inFlight0;
  const slope = (latency1S - latency0S) / (span === 0 ? 1 : span);
  const atZero = latency0S - slope * inFlight0;
  const linear = atZero + thinkTimeS - sessionsPerStation * slope;
  const alone = closedLoop === "arrival" ? thinkTimeS : 0;
  const constant = sessionsPerStation * atZero + alone;
  const root = Math.sqrt(Math.max(linear * linear + 4 * slope * constant, 0));
  // the same root in two forms; each is free of cancellation where it is used
  const solved =
    linear >= 0 ? (2 * constant) / Math.max(linear + root, 1e-300) : (root - linear) / (2 * (slope === 0 ? 1 : slope));
  return closedLoop === "arrival" && sessionsPerStation < 1 ? sessionsPerStation : solved;
}

/**
 * `max_sessions` at another rho; a limit that a row does not have is infinite.
 * @param {number} mostParked @param {number} mostInFlight @param {number} rho
 */
export const sessionsThatFit = (mostParked, mostInFlight, rho) => Math.min(mostParked, mostInFlight / rho);

/**
 * Sessions at which a curve meets memory between two rows (the KV wall); R is linear in the sessions there.
 * @param {number} sessions0 @param {number} latency0S @param {number} sessions1 @param {number} latency1S
 * @param {number} thinkTimeS @param {number} mostParked @param {number} mostInFlight either may be infinite
 */
export function sessionsAtWall(sessions0, latency0S, sessions1, latency1S, thinkTimeS, mostParked, mostInFlight) {
  const slope = (latency1S - latency0S) / (sessions1 - sessions0);
  const atZero = latency0S - slope * sessions0;
  // never more than the second row: an infinite limit becomes a large one that both are beyond
  const slots = Math.min(mostInFlight, 2 * sessions1);
  const half = (atZero - slope * slots) / 2;
  const constant = slots * (atZero + thinkTimeS);
  const distance = Math.sqrt(Math.max(half * half + slope * constant, 0));
  const root = half >= 0 ? constant / Math.max(half + distance, 1e-300) : (distance - half) / (slope === 0 ? 1 : slope);
  return Math.min(mostParked, root, sessions1);
}

/**
 * What follows from a number of sessions and their turn latency (Steps 2, 3, 8 and 9), in the units of the columns.
 * The last five are the caller's: they do not follow from these two.
 * @param {number} sessions @param {number} turnLatencyS @param {number} thinkTimeS @param {number} turns
 * @param {number} outputTokens @param {number} gpus
 */
export function figuresOfSessions(sessions, turnLatencyS, thinkTimeS, turns, outputTokens, gpus) {
  const perGpu = sessions / (turnLatencyS + thinkTimeS) / gpus;
  return {
    sessions,
    activity_fraction: activityFraction(turnLatencyS, thinkTimeS),
    turn_latency_ms: turnLatencyS * 1e3,
    task_time_s: turns * (turnLatencyS + thinkTimeS),
    turns_per_s_per_gpu: perGpu,
    tasks_per_hour_per_gpu: (3600 * perGpu) / turns,
    output_tokens_per_s_per_gpu: perGpu * outputTokens,
    e2e_tokens_per_s_per_user: outputTokens / turnLatencyS,
    sessions_per_gpu: sessions / gpus,
    max_sessions: NaN,
    ttft_ms: NaN,
    tpot_ms: NaN,
    decode_tokens_per_s_per_user: NaN,
    usd_per_task: NaN,
  };
}
