// @ts-check
/** Numbers and configurations as people read them. */

/**
 * Three significant digits, thousands apart; "–" where there is no number.
 * @param {number | null | undefined} value
 * @param {number} [digits]
 */
export function figure(value, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value !== 0 && Math.abs(value) < 1e-3) return value.toExponential(digits - 1);
  const decimals = Math.abs(value) >= 10 ** (digits - 1) ? 0 : undefined;
  return decimals === 0
    ? Math.round(value).toLocaleString("en-US")
    : value.toLocaleString("en-US", { maximumSignificantDigits: digits });
}

/** @param {number} bytes decimal units: 1 GB = 10^9 bytes */
export function memory(bytes) {
  if (!Number.isFinite(bytes)) return "–";
  return bytes >= 1e9 ? `${figure(bytes / 1e9)} GB` : `${figure(bytes / 1e6)} MB`;
}

/** @param {number} count @param {string} one @param {string} [many] */
export function counted(count, one, many = `${one}s`) {
  return `${count.toLocaleString("en-US")} ${count === 1 ? one : many}`;
}

/** "TP4 PP2": the degrees above one; TP always. @param {Record<string, number>} degrees */
function degrees(degrees) {
  const told = Object.entries(degrees).filter(([name, value]) => name === "TP" || value > 1);
  return told.map(([name, value]) => `${name}${value}`).join(" ");
}

/**
 * One deployment in a line: "TP4 EP4", or "2 × prefill TP4 + 1 × decode TP8".
 * @param {(name: string) => any} get value of a column of the row
 */
export function shape(get) {
  if (get("serving_mode") === "agg") {
    return degrees({ TP: get("tp"), PP: get("pp"), DP: get("dp"), EP: get("moe_ep"), CP: get("cp") });
  }
  /** @param {string} pool */
  const of = (pool) => {
    const worker = degrees({
      TP: get(`${pool}_tp`),
      PP: get(`${pool}_pp`),
      DP: get(`${pool}_dp`),
      EP: get(`${pool}_moe_ep`),
    });
    return `${get(`${pool}_workers`)} × ${pool} ${worker}`;
  };
  return `${of("prefill")} + ${of("decode")}`;
}

/** What stops a curve when sessions are added (`binding_limit`). */
const LIMITS = /** @type {Record<string, string>} */ ({
  kv_memory: "KV memory",
  host_memory: "host memory for idle KV",
  decode_kv_memory: "KV memory of the decode pool",
  prefill_kv_memory: "KV memory of the prefill pool",
  weights: "the weights do not fit",
  context_length: "the model's longest context",
  cluster_size: "the cluster's size",
  table_range: "the table's last row, not memory",
});

/** @param {string | null} limit */
export const limitInWords = (limit) => (limit === null ? "–" : (LIMITS[limit] ?? limit.replaceAll("_", " ")));

/** Why a row cannot be run (`infeasible_reason`). */
const REASONS = /** @type {Record<string, string>} */ ({
  kv_capacity: "memory does not hold the KV of its sessions",
  kv_capacity_below_table: "memory does not hold the sessions of even the table's first row",
  host_memory_capacity: "host memory does not hold the idle KV",
  weights_do_not_fit: "the weights do not fit",
  context_too_long: "the context is longer than the model takes",
  replica_larger_than_cluster: "the replica is larger than the cluster",
  table_memory_exceeds_gpu: "the table states more memory than the GPU has",
  above_peak_flops: "more FLOP/s than the GPU has",
});

/** @param {string | null} reason */
export const reasonInWords = (reason) => (reason === null ? "" : (REASONS[reason] ?? reason.replaceAll("_", " ")));

/** Where a point's figures come from (`transfer_method`). */
const METHODS = /** @type {Record<string, string>} */ ({
  direct: "the table's own row at this workload",
  transfer: "engine steps moved from the table",
  ratio: "by ratio from the table (rough)",
  roofline: "roofline: peak rates, no table",
});

/** @param {string} method */
export const methodInWords = (method) => METHODS[method] ?? method;

/** What else to know of a row's figures: how its kernel times came to be, and whether it is several times too slow.
 * @param {(name: string) => any} get @returns {string[]} */
export function flags(get) {
  const mode = get("database_mode");
  const times = get("slower_than_roofline");
  return [
    ...(mode === null || mode === "SILICON" ? [] : [`kernel times ${mode}, not all measured`]),
    ...(times === null ? [] : [`${times.toFixed(1)} times slower than the roofline`]),
  ];
}
