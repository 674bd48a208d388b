// @ts-check
/** The form: shows the state, and tells what the reader changes. */
import { LIMITS, X_AXES, Y_AXES } from "./axes.js";
import { colour } from "./palette.js";
import { isDark } from "./theme.js";

/** @typedef {import("./state.js").State} State */
/** @typedef {import("./lake.js").Index} Index */

/** @template {HTMLElement} T @param {string} id @returns {T} */
export const byId = (id) => /** @type {T} */ (document.getElementById(id));
const form = () => /** @type {HTMLFormElement} */ (byId("controls"));
/** @param {string} name */
const field = (name) => /** @type {any} */ (form().elements.namedItem(name));

/** Sliders are finer where small changes matter. */
const Z_STEPS = 100;
/** @param {number} published */
const zMost = (published) => Math.max(60, 4 * published);
/** @param {number} step @param {number} published */
export const zOfStep = (step, published) => Number((zMost(published) * (step / Z_STEPS) ** 2).toPrecision(3));
/** @param {number} z @param {number} published */
const stepOfZ = (z, published) => Z_STEPS * Math.sqrt(Math.min(z / zMost(published), 1));
const C_DOUBLINGS = 12;
/** @param {number} step */
const cOfStep = (step) => Math.round(2 ** ((C_DOUBLINGS * step) / 100));
/** @param {number} c */
const stepOfC = (c) => (100 * Math.log2(Math.max(c, 1))) / C_DOUBLINGS;

/** @param {HTMLSelectElement} select @param {[string, string][]} options value and label @param {string} value */
export function fillSelect(select, options, value) {
  select.replaceChildren(...options.map(([id, label]) => new Option(label, id)));
  select.value = value;
}

/**
 * @param {(change: Partial<State>) => void} change
 * @param {() => Record<string, any>} scenario the scenario that is shown
 */
export function wireControls(change, scenario) {
  // on a narrow screen the chart comes before what is rarely changed
  if (innerWidth <= 900) for (const part of form().querySelectorAll("details")) part.open = false;
  for (const [name, limit] of Object.entries(LIMITS)) {
    const label = document.createElement("label");
    const input = document.createElement("input");
    Object.assign(input, { type: "number", min: "0", step: "any", name, placeholder: "none", inputMode: "decimal" });
    label.append(`${limit.label} `, input);
    byId("limits").append(label);
  }
  form().addEventListener("submit", (event) => event.preventDefault());
  form().addEventListener("input", (event) => {
    const target = /** @type {HTMLInputElement} */ (event.target);
    const { name, id, value, checked } = target;
    const number = value === "" ? null : Number(value);
    if (name === "gpu") return;
    if (["model", "scenario", "dtype", "x", "y"].includes(name)) change({ [name]: value });
    else if (["logX", "logY", "below", "beyond"].includes(name)) change({ [name]: checked });
    else if (name in LIMITS) change({ [name]: number !== null && number > 0 ? number : null });
    else if (id === "z-range") change({ z: zOfStep(Number(value), scenario().think_time_s) });
    else if (id === "z" && number !== null && number >= 0) change({ z: number });
    else if (id === "h-range" || (id === "h" && number !== null && number >= 0 && number <= 1))
      change({ h: Number(value) });
    else if (id === "c-on") change({ c: checked ? (scenario().scenario_sessions ?? 16) : null });
    else if (id === "c-range") change({ c: cOfStep(Number(value)) });
    else if (id === "c" && number !== null && number >= 1) change({ c: Math.round(number) });
    else if (id === "g" && number !== null && number >= 1) change({ g: Math.round(number) });
  });
  byId("hardware").addEventListener("change", () => {
    const chosen = [...byId("hardware").querySelectorAll("input:checked")].map((box) => /** @type {any} */ (box).value);
    change({ hardware: chosen });
  });
  byId("reset").addEventListener("click", () => change({ z: null, h: null, c: null }));
}

/**
 * @param {Index} index @param {State} state @param {Record<string, any>} scenario
 * @param {{ dtypes: string[], hasCost: boolean, hasHits: boolean, ownHits: boolean }} offers what the rows allow
 */
export function showControls(index, state, scenario, offers) {
  const models = index.models.filter((one) => one.model in index.agent_points);
  fillSelect(
    field("model"),
    models.map((one) => [one.model, one.model_name]),
    state.model,
  );
  const scenarios = index.scenarios.filter((one) => one.scenario in (index.agent_points[state.model] ?? {}));
  fillSelect(
    field("scenario"),
    scenarios.map((one) => [one.scenario, one.scenario_name]),
    state.scenario,
  );
  const precisions = /** @type {[string, string][]} */ (offers.dtypes.map((dtype) => [dtype, dtype]));
  if (precisions.length > 1) precisions.push(["all", "all, side by side"]);
  fillSelect(field("dtype"), precisions, state.dtype);
  const better = (/** @type {import("./axes.js").Axis} */ axis) => (axis.lowerIsBetter ? "↓" : "↑");
  const named = (/** @type {Record<string, import("./axes.js").Axis>} */ axes) =>
    /** @type {[string, string][]} */ (Object.entries(axes).map(([id, axis]) => [id, `${axis.title} ${better(axis)}`]));
  fillSelect(field("x"), named(X_AXES), state.x);
  fillSelect(
    field("y"),
    named(Y_AXES).filter(([id]) => id !== "cost" || offers.hasCost),
    state.y,
  );
  for (const name of /** @type {const} */ (["logX", "logY", "below", "beyond"])) field(name).checked = state[name];
  for (const name of Object.keys(LIMITS)) show(field(name), /** @type {any} */ (state)[name]);
  showHardware(index, state);
  showKnobs(state, scenario, offers);
}

/** @param {Index} index @param {State} state */
function showHardware(index, state) {
  const there = index.agent_points[state.model]?.[state.scenario] ?? {};
  const box = byId("hardware");
  const active = document.activeElement instanceof HTMLInputElement ? document.activeElement.value : null;
  box.replaceChildren(
    ...index.hardware
      .filter((gpu) => gpu.hardware in there)
      .map((gpu) => {
        const label = document.createElement("label");
        const input = document.createElement("input");
        const place = state.hardware.indexOf(gpu.hardware);
        Object.assign(input, { type: "checkbox", name: "gpu", value: gpu.hardware, checked: place >= 0 });
        label.className = "chip";
        if (place >= 0) label.style.setProperty("--chip", colour(place, isDark()));
        label.append(input, gpu.hardware_name);
        return label;
      }),
  );
  const again = active && box.querySelector(`input[value="${CSS.escape(active)}"]`);
  if (again instanceof HTMLElement) again.focus();
}

/**
 * @param {State} state @param {Record<string, any>} scenario @param {{ hasHits: boolean, ownHits: boolean }} offers
 */
function showKnobs(state, scenario, { hasHits, ownHits }) {
  const z = state.z ?? scenario.think_time_s;
  show(byId("z"), z);
  show(byId("z-range"), stepOfZ(z, scenario.think_time_s));
  const ofOneRow = X_AXES[state.x].ofOneRow === true;
  byId("h-knob").hidden = !hasHits;
  const published = ownHits ? null : scenario.cache_hit_rate;
  const h = ofOneRow || state.h === null ? published : state.h;
  show(byId("h"), h);
  show(byId("h-range"), h ?? 1);
  for (const id of ["h", "h-range"]) /** @type {HTMLInputElement} */ (byId(id)).disabled = ofOneRow;
  /** @type {HTMLInputElement} */ (byId("h")).placeholder = ownHits ? "own" : "";
  const notes = [
    hasHits && ofOneRow ? "Decode speed is known at the published hit rate only." : "",
    ownHits || scenario.cache_model !== "fixed"
      ? "Here the hit rate follows from pauses, sessions and memory. The sliders of Z and C keep the published ones; agent-pareto what-if finds them anew."
      : "",
  ];
  byId("h-note").textContent = notes.filter(Boolean).join(" ");
  byId("h-note").hidden = byId("h-note").textContent === "";
  /** @type {HTMLInputElement} */ (byId("c-on")).checked = state.c !== null;
  byId("c-knob").hidden = state.c === null;
  /** @type {HTMLElement} */ (byId("g").parentElement).hidden = state.c === null;
  show(byId("c"), state.c);
  show(byId("c-range"), stepOfC(state.c ?? 1));
  show(byId("g"), state.g);
  const moved = state.z !== null || state.h !== null || state.c !== null;
  /** @type {HTMLButtonElement} */ (byId("reset")).disabled = !moved;
}

/**
 * A field that the reader is typing in is left alone.
 * @param {HTMLInputElement} input @param {number | null} value
 */
function show(input, value) {
  if (document.activeElement === input && input.type === "number") return;
  input.value = value === null || value === undefined ? "" : String(value);
}
