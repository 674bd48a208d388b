// @ts-check
/** The section that shows standard serving beside agents. */
import { Chart } from "./chart.js";
import { byId, fillSelect } from "./controls.js";
import { shape } from "./format.js";
import { figure } from "./format.js";
import { lookOf } from "./looks.js";
import { inks } from "./palette.js";
import { sideBySide, standardSeries, workloads } from "./serving.js";

/** @type {{ standard: Chart, agents: Chart } | null} */
let charts = null;
let wired = false;

/**
 * @param {import("./lake.js").Index} index @param {import("./state.js").State} state
 * @param {import("./lake.js").Rows} agents @param {import("./lake.js").Rows} serving
 * @param {(slug: string) => string} nameOf @param {(change: Partial<import("./state.js").State>) => void} change
 */
export async function showSideBySide(index, state, agents, serving, nameOf, change) {
  const select = /** @type {HTMLSelectElement} */ (byId("workload"));
  if (!wired) select.addEventListener("change", () => change({ workload: select.value }));
  wired = true;
  const offered = workloads(serving);
  const workload = offered.some((one) => one.id === state.workload)
    ? /** @type {string} */ (state.workload)
    : offered[0]?.id;
  fillSelect(
    select,
    offered.map((one) => [one.id, one.label]),
    workload,
  );
  const sides = sideBySide(index, state, agents, serving, workload, nameOf);
  charts ??= { standard: sideChart("standard"), agents: sideChart("agents") };
  const series = standardSeries(serving, workload, state, nameOf);
  for (const [name, title] of /** @type {["standard" | "agents", string][]} */ ([
    ["standard", "Single requests"],
    ["agents", "Agents"],
  ])) {
    const drawn = sides[name];
    const empty = { below: [], beyond: [], walls: [], best: [], excluded: [], limits: [] };
    await charts[name].draw(
      {
        ...lookOf(series, state, inks()),
        x: sides.x,
        y: sides.y,
        description: `${title}: ${sides.y.title} against ${sides.x.title.toLowerCase()}.`,
      },
      { ...empty, frontier: drawn },
      byId(name).clientWidth < 480 ? 300 : 330,
    );
  }
  const scenario = index.scenarios.find((one) => one.scenario === state.scenario);
  byId("agents-caption").textContent = `Agents: ${scenario?.scenario_name}`;
  const told = sides.best.standard.map((one) => {
    const agentsBest = sides.best.agents.find((other) => other.label === one.label)?.value ?? 0;
    return `${one.label} ${figure(one.value)} → ${figure(agentsBest)}`;
  });
  byId("side-note").textContent =
    `Highest output tokens/s per GPU, single requests → agents: ${told.join("; ")}. Both axes are logarithmic and the same on both sides.`;
  Object.assign(/** @type {any} */ (globalThis).explorer, { sides, serving, workload });
}

/** @param {"standard" | "agents"} name */
function sideChart(name) {
  const caption = byId(`${name}-caption`);
  let title = "";
  return new Chart(
    byId(name),
    (drawn) => {
      if (drawn === null) {
        if (title) caption.textContent = title;
        title = "";
        return;
      }
      title ||= caption.textContent ?? "";
      const rows =
        name === "standard"
          ? /** @type {any} */ (globalThis).explorer.serving
          : /** @type {any} */ (globalThis).explorer.rows;
      const told = shape((column) => rows.value(drawn.point.row, column));
      caption.textContent = `${told}: ${figure(drawn.y)} output tokens/s per GPU at ${figure(drawn.x)} tokens/s per user`;
    },
    () => {},
  );
}
