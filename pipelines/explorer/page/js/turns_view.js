// @ts-check
/** The chosen point's turns as pictures, and as a table. */
import { byId } from "./controls.js";
import { figure, memory } from "./format.js";
import { turnDifferences, turnWork } from "./lake.js";
import { colour, inks } from "./palette.js";
import { smallSpecification } from "./spec.js";
import { fillTable } from "./tables.js";
import { isDark } from "./theme.js";
import { turnFigures } from "./turns.js";
import { vegaView } from "./vega_view.js";

/** @typedef {import("./turns.js").Turn} Turn */
/** @typedef {import("./evaluate.js").Point} Point */

/** @type {Record<string, { title: string, lines: [string, (turn: Turn) => number][] }>} */
const PICTURES = {
  "turns-context": { title: "Context (tokens)", lines: [["", (turn) => turn.context_tokens]] },
  "turns-kv": { title: "KV of a session (GB)", lines: [["", (turn) => turn.kv_bytes / 1e9]] },
  "turns-ttft": {
    title: "Time to first token (s)",
    lines: [
      ["hit", (turn) => turn.ttft_on_hit_ms / 1e3],
      ["miss", (turn) => turn.ttft_on_miss_ms / 1e3],
    ],
  },
  "turns-latency": {
    title: "Turn latency R (s)",
    lines: [
      ["hit", (turn) => turn.latency_on_hit_ms / 1e3],
      ["miss", (turn) => turn.latency_on_miss_ms / 1e3],
    ],
  },
};
/** @type {Map<string, any>} */
const views = new Map();

/**
 * @param {import("./lake.js").Index} index @param {import("./state.js").State} state
 * @param {import("./view.js").Worked} worked @param {import("./lake.js").Rows} rows @param {Point} point
 */
export async function turnsOf(index, state, worked, rows, point) {
  const missing = index.turns_missing[state.scenario];
  if (missing !== undefined) return missing;
  if (worked.knobs.h !== null) return "Single turns are known at the published hit rate: put h back to see them.";
  const [work, differences] = await Promise.all([
    turnWork(state.model, state.scenario),
    turnDifferences(state.hardware, state.model, state.scenario),
  ]);
  const turns = turnFigures(rows, differences, work, point, worked.points);
  return turns ?? "This point's published latency has parts that single turns cannot be told from.";
}

/**
 * @param {Turn[] | string} turns or why there are none @param {import("./view.js").Worked} worked
 * @param {import("./lake.js").Rows} rows @param {Point} point
 */
export async function showTurns(turns, worked, rows, point) {
  byId("turns").hidden = typeof turns === "string";
  byId("turns-note").textContent = typeof turns === "string" ? turns : inWords(turns, worked, rows, point);
  if (typeof turns === "string") return;
  const colours = [colour(0, isDark()), colour(1, isDark())];
  byId("turns").style.setProperty("--hit", colours[0]);
  byId("turns").style.setProperty("--miss", colours[1]);
  for (const [id, { title, lines }] of Object.entries(PICTURES)) {
    const values = lines.flatMap(([kind, of]) => turns.map((turn) => ({ turn: turn.turn, value: of(turn), kind })));
    const box = byId(id);
    /** @type {HTMLElement} */ (box.parentElement).hidden = values.some(({ value }) => Number.isNaN(value));
    if (/** @type {HTMLElement} */ (box.parentElement).hidden) continue;
    views.get(id)?.finalize();
    const spec = smallSpecification({
      width: Math.max(200, box.clientWidth),
      height: 200,
      title,
      values,
      colours,
      inks: inks(),
    });
    const view = vegaView(spec, { renderer: "canvas" });
    views.set(id, view);
    await view.initialize(box).runAsync();
    box.setAttribute("role", "img");
    box.setAttribute("aria-label", `${title} by turn; the table below has the figures`);
  }
  const head = [
    "turn",
    "context, tokens",
    "KV, GB",
    "new on a hit",
    "TTFT, s",
    "R, s",
    "new on a miss",
    "TTFT, s",
    "R, s",
  ];
  const lines = turns.map((turn) =>
    [
      turn.turn,
      turn.context_tokens,
      turn.kv_bytes / 1e9,
      turn.new_on_hit,
      turn.ttft_on_hit_ms / 1e3,
      turn.latency_on_hit_ms / 1e3,
      turn.new_on_miss,
      turn.ttft_on_miss_ms / 1e3,
      turn.latency_on_miss_ms / 1e3,
    ].map((value) => figure(value)),
  );
  fillTable(byId("turns-table"), head, lines, 0);
}

/** @param {Turn[]} turns @param {import("./view.js").Worked} worked @param {import("./lake.js").Rows} rows @param {Point} point */
function inWords(turns, worked, rows, point) {
  const { z, turns: count } = worked.knobs;
  const taskTime = (/** @type {(turn: Turn) => number} */ of) =>
    (count * turns.reduce((sum, turn) => sum + of(turn), 0)) / turns.length / 1e3 + count * z;
  const held = point.figures.sessions * rows.value(point.row, "kv_bytes_per_session_mean");
  return (
    `A task whose turns all find their prefix in the cache takes ${figure(taskTime((turn) => turn.latency_on_hit_ms))} s, ` +
    `one whose turns all miss it ${figure(taskTime((turn) => turn.latency_on_miss_ms))} s, beside others that behave as published; ` +
    `the mean is ${figure(point.figures.task_time_s)} s. ` +
    `The ${figure(point.figures.sessions)} sessions of a replica hold at their mean context ${memory(held)} of the ` +
    `${memory(rows.value(point.row, "kv_bytes_available"))} that are there for KV.`
  );
}
