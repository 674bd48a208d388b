// @ts-check
/** The release's Parquet in the page: fetched when it is chosen, decoded column by column, kept. */
import { compressors, parquetMetadata, parquetRead } from "../vendor/hyparquet.min.js";

/**
 * @typedef {object} Index what `index.json` says of the release
 * @property {string} release
 * @property {string} created_at
 * @property {string} closed_loop
 * @property {{ hardware: string, hardware_name: string }[]} hardware
 * @property {{ model: string, model_name: string }[]} models
 * @property {Record<string, any>[]} scenarios
 * @property {Record<string, Record<string, Record<string, number>>>} agent_points rows by model, scenario, hardware
 * @property {Record<string, Record<string, number>>} serving_points rows by model and hardware
 * @property {{ model: string, scenario: string, hardware: string[] }} first what to show first
 * @property {Record<string, string>} turns_missing why nothing is told of a scenario's single turns
 */

/** Rows of one or several partitions: a column is a Float64Array (NaN for NULL) or an array of texts or booleans. */
export class Rows {
  /** @param {number} count @param {Record<string, ArrayLike<any>>} columns @param {string[]} hardware slug of each row */
  constructor(count, columns, hardware) {
    this.count = count;
    this.columns = columns;
    this.hardware = hardware;
    this.names = new Set(Object.keys(columns));
  }

  /** @param {string} name @returns {ArrayLike<any>} */
  column(name) {
    return (this.columns[name] ??= new Float64Array(this.count).fill(NaN)); // a column that this release lacks
  }

  /** @param {number} row @param {string} name */
  value(row, name) {
    if (name === "hardware") return this.hardware[row];
    const value = this.columns[name]?.[row];
    return value === undefined || Number.isNaN(value) ? null : value;
  }

  /** Whether a column is there with at least one value. @param {string} name */
  has(name) {
    const values = this.columns[name];
    return values !== undefined && Array.prototype.some.call(values, (value) => value !== null && !Number.isNaN(value));
  }
}

/** @type {Index | null} */
let index = null;
/** @type {Map<string, Promise<Rows>>} */
const fetched = new Map();

/** @returns {Promise<Index>} */
export async function fetchIndex() {
  index = await (await fetchFile("index.json", { cache: "no-cache" })).json();
  return /** @type {Index} */ (index);
}

/** @param {string[]} hardware @param {string} model @param {string} scenario */
export async function agentPoints(hardware, model, scenario) {
  const rows = await fetchAll(
    hardware,
    (gpu) => `agent_points/hardware=${gpu}/model=${model}/scenario=${scenario}/part-0.parquet`,
  );
  const counts = /** @type {Index} */ (index).agent_points[model][scenario];
  if (rows.count !== hardware.reduce((sum, gpu) => sum + counts[gpu], 0)) {
    throw new Error("The files beside the page are not those of the release that it was opened with: reload it.");
  }
  return rows;
}

/** @param {string[]} hardware @param {string} model */
export const servingPoints = (hardware, model) =>
  fetchAll(hardware, (gpu) => `serving_points/hardware=${gpu}/model=${model}/part-0.parquet`);

/** What single turns add to each row of `agentPoints`. @param {string[]} hardware @param {string} model @param {string} scenario */
export const turnDifferences = (hardware, model, scenario) =>
  fetchAll(hardware, (gpu) => `turns/hardware=${gpu}/model=${model}/scenario=${scenario}/part-0.parquet`);

/** @param {string} model @param {string} scenario @returns {Promise<import("./turns.js").TurnWork>} */
export const turnWork = async (model, scenario) =>
  (await fetchFile(`turns/model=${model}/scenario=${scenario}.json`)).json();

/**
 * The release stands in the address, so that no cache between gives the rows of an earlier one.
 * @param {string} path @param {RequestInit} [options] @returns {Promise<Response>}
 */
async function fetchFile(path, options) {
  const address = new URL(path, document.baseURI);
  if (index !== null) address.searchParams.set("release", index.release);
  const response = await fetch(address, options);
  if (!response.ok) throw new Error(`${path} cannot be read (${response.status}).`);
  return response;
}

/** @param {string[]} hardware @param {(gpu: string) => string} path */
async function fetchAll(hardware, path) {
  return concatenated(await Promise.all(hardware.map((gpu) => fetchOnce(path(gpu), gpu))));
}

/** @param {string} path @param {string} gpu */
function fetchOnce(path, gpu) {
  let rows = fetched.get(path);
  if (rows === undefined) {
    rows = decode(path, gpu);
    fetched.set(path, rows);
    rows.catch(() => fetched.delete(path)); // another try is free to succeed
  }
  return rows;
}

/** @param {string} path @param {string} gpu */
async function decode(path, gpu) {
  const file = await (await fetchFile(path)).arrayBuffer();
  const metadata = parquetMetadata(file);
  const count = Number(metadata.num_rows);
  /** @type {Record<string, any>} */
  const columns = {};
  for (const { name, type } of metadata.schema.slice(1)) {
    const isNumber = type !== "BYTE_ARRAY" && type !== "BOOLEAN";
    columns[name] = isNumber ? new Float64Array(count).fill(NaN) : new Array(count).fill(null);
  }
  await parquetRead({
    file,
    metadata,
    compressors,
    onChunk: (/** @type {{ columnName: string, columnData: ArrayLike<any>, rowStart: number }} */ chunk) => {
      const { columnName, columnData, rowStart } = chunk;
      const into = columns[columnName];
      const isNumber = into instanceof Float64Array;
      for (let at = 0; at < columnData.length; at += 1) {
        const value = columnData[at];
        if (value !== null && value !== undefined) into[rowStart + at] = isNumber ? Number(value) : value;
      }
    },
  });
  return new Rows(count, columns, new Array(count).fill(gpu));
}

/** @param {Rows[]} parts */
function concatenated(parts) {
  if (parts.length === 1) return parts[0];
  const count = parts.reduce((sum, part) => sum + part.count, 0);
  /** @type {Record<string, any>} */
  const columns = {};
  for (const name of new Set(parts.flatMap((part) => Object.keys(part.columns)))) {
    const isText = parts.some((part) => Array.isArray(part.columns[name]));
    const into = isText ? new Array(count).fill(null) : new Float64Array(count).fill(NaN);
    let start = 0;
    for (const part of parts) {
      const values = part.columns[name];
      for (let at = 0; values !== undefined && at < part.count; at += 1) into[start + at] = values[at];
      start += part.count;
    }
    columns[name] = into;
  }
  return new Rows(
    count,
    columns,
    parts.flatMap((part) => part.hardware),
  );
}
