// @ts-check
/** A point in words: the tooltip, and the card of the chosen point. */
import { counted, figure, flags, limitInWords, memory, methodInWords, reasonInWords, shape } from "./format.js";

/** @typedef {import("./lake.js").Rows} Rows */
/** @typedef {import("./evaluate.js").Point} Point */

/** @param {Rows} rows @param {Point} point @param {string} hardwareName @param {number} hitRate @returns {[string, string][]} */
export function facts(rows, point, hardwareName, hitRate) {
  const get = (/** @type {string} */ name) => rows.value(point.row, name);
  const { figures } = point;
  const precision = [`weights ${get("weight_dtype")}`, `KV ${get("kv_dtype")}`];
  const inFlight = figures.sessions * figures.activity_fraction;
  /** @type {[string, string][]} */
  const told = [
    ["GPU", `${hardwareName}, ${counted(get("gpus_per_replica"), "GPU")} a replica`],
    ["Configuration", shape(get)],
    ["Engine", [get("backend"), get("backend_version")].filter(Boolean).join(" ")],
    ["Precision", precision.join(", ")],
  ];
  if (get("serving_mode") === "agg") {
    if (!point.atWall && get("batch_per_rank") !== null)
      told.push(["Batch", `${figure(get("batch_per_rank"))} a rank`]);
  } else told.push(["Batch", `prefill ${figure(get("prefill_batch"))}, decode ${figure(get("decode_batch"))}`]);
  told.push(
    ["Sessions", `${figure(figures.sessions)} a replica; ${figure(inFlight)} in flight on average`],
    ["Memory holds", `${figure(figures.max_sessions)} sessions`],
    ["Cache hit rate", figure(hitRate)],
    ["Turn latency", `${figure(figures.turn_latency_ms / 1e3)} s`],
  );
  if (!Number.isNaN(figures.ttft_ms)) {
    told.push(["TTFT, TPOT", `${figure(figures.ttft_ms)} ms, ${figure(figures.tpot_ms)} ms`]);
  }
  told.push(
    ["Task time", `${figure(figures.task_time_s)} s`],
    ["Tasks/h per GPU", figure(figures.tasks_per_hour_per_gpu)],
    ["Tokens/s per user", `${figure(figures.e2e_tokens_per_s_per_user)} end to end`],
  );
  if (figures.usd_per_task > 0) told.push(["Cost", `${figure(figures.usd_per_task)} USD a task`]);
  told.push(["Binding limit", limitInWords(get("binding_limit"))]);
  const error = get("expected_error_fraction");
  const band = error === null ? "error not evaluated" : `expected error ${figure(100 * error)} %`;
  told.push([
    "From",
    [methodInWords(get("transfer_method")), band, ...(get("extrapolated") ? ["extrapolated"] : []), ...flags(get)].join(
      "; ",
    ),
  ]);
  if (point.admitted !== undefined) {
    told.push(["Note", `memory admits ${figure(point.admitted)} of the sessions wanted on a replica`]);
  } else if (point.reason !== null) told.push(["Not possible", reasonInWords(point.reason)]);
  else if (point.atWall) told.push(["Note", "interpolated: here the curve meets the KV wall"]);
  return told;
}

/** What only the chosen point's card says. @param {Rows} rows @param {Point} point @returns {[string, string][]} */
export function moreFacts(rows, point) {
  const get = (/** @type {string} */ name) => rows.value(point.row, name);
  return [
    [
      "KV of a session",
      `${memory(get("kv_bytes_per_session_mean"))} mean, ${memory(get("kv_bytes_per_session_peak"))} peak`,
    ],
    ["KV memory", `${memory(get("kv_bytes_available"))} a replica`],
    ["Source", `${get("source")}: ${get("source_file")}, row ${get("source_row")}`],
    ["Point", get("point_id")],
  ];
}

/** @param {HTMLElement} list a `dl` @param {[string, string][]} told */
export function fillList(list, told) {
  list.replaceChildren(
    ...told.map(([name, text]) => {
      const line = document.createElement("div");
      const term = document.createElement("dt");
      const value = document.createElement("dd");
      term.textContent = name;
      value.textContent = text;
      line.append(term, value);
      return line;
    }),
  );
}

/** One sentence for those who hear the chart. @param {[string, string][]} told */
export const spoken = (told) => told.map(([name, text]) => `${name}: ${text}`).join(". ");
