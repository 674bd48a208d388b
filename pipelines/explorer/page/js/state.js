// @ts-check
/** What the page shows, as the part of its address behind the `#`: who shares the address shares the view. */

/**
 * @typedef {object} State
 * @property {string} model
 * @property {string} scenario
 * @property {string[]} hardware
 * @property {string} dtype weight precision, or "all"
 * @property {string} x @property {string} y axes
 * @property {boolean} logX @property {boolean} logY
 * @property {boolean} below @property {boolean} beyond which points are drawn beside the frontier
 * @property {number | null} z think time in s; null: the scenario's
 * @property {number | null} h cache hit rate; null: as published
 * @property {number | null} c sessions on `g` GPUs; null: every load of the table
 * @property {number} g
 * @property {number | null} turnLimit @property {number | null} taskLimit
 * @property {number | null} e2eLimit @property {number | null} decodeLimit
 * @property {string | null} workload of the standard table, "isl/osl/prefix"
 * @property {string | null} point the chosen point: "hardware:point_id"
 */

/** @type {Omit<State, "model" | "scenario" | "hardware">} */
export const DEFAULTS = {
  dtype: "",
  x: "turn",
  y: "tasks",
  logX: true,
  logY: false,
  below: true,
  beyond: true,
  z: null,
  h: null,
  c: null,
  g: 8,
  turnLimit: null,
  taskLimit: null,
  e2eLimit: null,
  decodeLimit: null,
  workload: null,
  point: null,
};

const NUMBERS = ["z", "h", "c", "g", "turnLimit", "taskLimit", "e2eLimit", "decodeLimit"];
const SWITCHES = ["logX", "logY", "below", "beyond"];

/** @param {State} state */
export function toHash(state) {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) {
    if (value === null || value === /** @type {any} */ (DEFAULTS)[name]) continue;
    parts.set(name, SWITCHES.includes(name) ? (value ? "1" : "0") : String(value));
  }
  return `#${parts.toString().replaceAll("%2C", ",").replaceAll("%2F", "/").replaceAll("%3A", ":")}`;
}

/**
 * What a hash says, and nothing that it does not say. What is no number is left out.
 * @param {string} hash @returns {Partial<State>}
 */
export function fromHash(hash) {
  /** @type {Record<string, any>} */
  const state = {};
  for (const [name, text] of new URLSearchParams(hash.replace(/^#/, ""))) {
    if (NUMBERS.includes(name)) {
      const value = Number(text);
      if (text !== "" && Number.isFinite(value) && value >= 0) state[name] = value;
    } else if (SWITCHES.includes(name)) state[name] = text === "1";
    else if (name === "hardware") state.hardware = text.split(",").filter(Boolean);
    else if (name in DEFAULTS || name === "model" || name === "scenario") state[name] = text;
  }
  return state;
}
