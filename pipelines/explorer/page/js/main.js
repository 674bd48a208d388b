// @ts-check
/** Wires state, data, chart and tables; every change goes through `change`. */
import { X_AXES, Y_AXES } from "./axes.js";
import { showBest } from "./best_view.js";
import { Chart } from "./chart.js";
import { byId, showControls, wireControls } from "./controls.js";
import { facts, fillList, moreFacts, spoken } from "./details.js";
import { counted, figure } from "./format.js";
import { agentPoints, fetchIndex, servingPoints } from "./lake.js";
import { markKey, seriesLegend } from "./legend.js";
import { inks } from "./palette.js";
import { lookOf } from "./looks.js";
import { showSideBySide } from "./side.js";
import { DEFAULTS, fromHash, toHash } from "./state.js";
import { changesOf, statusOf } from "./status.js";
import { PAGE_ROWS, download, fillPoints, pointsAsCsv, tablePoints } from "./tables.js";
import { wireTheme } from "./theme.js";
import { showTurns, turnsOf } from "./turns_view.js";
import { scenarioOf, workOut } from "./view.js";

/** @typedef {import("./state.js").State} State */
/** @typedef {import("./lake.js").Rows} Rows */
/** @typedef {import("./evaluate.js").Point} Point */

/** @type {import("./lake.js").Index} */
let index;
/** @type {State} */
let state;
/** @type {Rows} */
let rows;
/** @type {import("./view.js").Worked} */
let worked;
/** @type {Chart} */
let chart;
/** Standard serving is drawn when the reader has let go of the sliders for so long. */
const CALM_MS = 120;
let page = 0;
let turn = 0;

const nameOf = (/** @type {string} */ slug) =>
  index.hardware.find((one) => one.hardware === slug)?.hardware_name ?? slug;

/**
 * The state that an address means: what it leaves out or what the release lacks takes its default.
 * @param {string} hash @returns {State}
 */
function stateOf(hash) {
  const said = fromHash(hash);
  const model = said.model && said.model in index.agent_points ? said.model : index.first.model;
  const scenarios = index.agent_points[model];
  const scenario =
    [said.scenario, index.first.scenario].find((slug) => slug !== undefined && slug in scenarios) ??
    Object.keys(scenarios)[0];
  const there = scenarios[scenario];
  const wanted = (said.hardware ?? []).filter((gpu) => gpu in there);
  const first = index.first.hardware.filter((gpu) => gpu in there);
  const hardware = wanted.length ? wanted : first.length ? first : Object.keys(there).slice(0, 1);
  const chosen = { ...DEFAULTS, ...said, model, scenario, hardware };
  if (!(chosen.x in X_AXES)) chosen.x = DEFAULTS.x;
  if (!(chosen.y in Y_AXES)) chosen.y = DEFAULTS.y;
  if (chosen.h !== null && chosen.h > 1) chosen.h = null;
  return chosen;
}

/** @param {Partial<State>} changes */
async function change(changes) {
  const next = { ...state, ...changes };
  const hardware = next.hardware.length ? next.hardware : state.hardware.slice(0, 1);
  // colours stay with a GPU while others come and go
  next.hardware = [
    ...state.hardware.filter((gpu) => hardware.includes(gpu)),
    ...hardware.filter((gpu) => !state.hardware.includes(gpu)),
  ];
  if ("scenario" in changes || "model" in changes)
    Object.assign(next, { z: null, h: null, c: null, point: null, workload: null });
  if ("c" in changes && state.c === null) next.g = scenarioOf(index, next).scenario_gpus ?? DEFAULTS.g;
  state = stateOf(toHash(next));
  page = 0;
  await update();
}

/** Draws the state. A later call overtakes an earlier one that still waits for its files. */
async function update() {
  const mine = ++turn;
  history.replaceState(null, "", toHash(state));
  const fetchedRows = await guarded(() => agentPoints(state.hardware, state.model, state.scenario));
  await nextFrame(); // of the moves of a slider within one frame only the last is worked out
  if (fetchedRows === undefined || mine !== turn) return;
  rows = fetchedRows;
  const dtypes = precisions(rows);
  if (state.dtype !== "all" && !dtypes.includes(state.dtype)) state.dtype = dtypes[0];
  const rates = rows.column("cache_hit_rate");
  const offers = {
    dtypes,
    hasCost: rows.has("usd_per_gpu_hour"),
    hasHits: rows.has("turn_latency_all_hits_ms"),
    ownHits: Array.prototype.some.call(rates, (rate) => Math.abs(rate - rates[0]) > 1e-9),
  };
  if (!offers.hasCost && state.y === "cost") state.y = DEFAULTS.y;
  if (!offers.hasHits) state.h = null;
  const scenario = scenarioOf(index, state);
  showControls(index, state, scenario, offers);
  showScenario(scenario, offers.ownHits);
  worked = workOut(index, state, rows);
  await showChart();
  showBest(worked, rows, chooser);
  showTable();
  Object.assign(/** @type {any} */ (globalThis), { explorer: { index, state, rows, worked, chart } }); // for the console, and for tests
  showPoint();
  if (mine === 1) performance.mark("first-chart");
  document.body.dataset.ready = String(mine);
  await new Promise((resolve) => setTimeout(resolve, CALM_MS));
  if (mine !== turn) return;
  const serving = await guarded(() => servingPoints(state.hardware, state.model));
  if (serving !== undefined && mine === turn) await showSideBySide(index, state, rows, serving, nameOf, change);
}

/** Resolves before the next picture, or soon where none is drawn. */
const nextFrame = () =>
  new Promise((resolve) => {
    requestAnimationFrame(resolve);
    setTimeout(resolve, 50);
  });

/** Precisions of the rows, the one that most GPUs have first. @param {Rows} of */
function precisions(of) {
  const dtypes = of.column("weight_dtype");
  /** @type {Map<string, Set<string>>} */
  const gpus = new Map();
  for (let row = 0; row < of.count; row += 1) {
    const known = gpus.get(dtypes[row]) ?? new Set();
    known.add(of.hardware[row]);
    gpus.set(dtypes[row], known);
  }
  return [...gpus].sort(([one, a], [other, b]) => b.size - a.size || (one < other ? -1 : 1)).map(([dtype]) => dtype);
}

/** @param {Record<string, any>} scenario @param {boolean} ownHits */
function showScenario(scenario, ownHits) {
  byId("scenario-note").textContent =
    `${figure(scenario.turns)} turns of ${figure(scenario.output_tokens_per_turn)} output tokens, context from ` +
    `${figure(scenario.initial_prompt_tokens)} to ${figure(scenario.peak_context_tokens)} tokens, ` +
    `pause ${figure(scenario.think_time_s)} s, ` +
    (ownHits ? "each point with the hit rate that memory leaves it." : `hit rate ${figure(scenario.cache_hit_rate)}.`);
}

async function showChart() {
  const { x, y, counts, series } = worked;
  const model = index.models.find((one) => one.model === state.model)?.model_name ?? state.model;
  byId("chart-heading").textContent = `${model}, ${worked.scenario.scenario_name}${changesOf(worked, state)}`;
  seriesLegend(byId("legend"), series, state);
  markKey(byId("marks"), state, worked.limits.length > 0);
  const narrow = byId("chart").clientWidth < 480;
  const description = `${y.title} against ${x.title.toLowerCase()} of ${series.map((one) => one.label).join(", ")}: ${counted(counts.frontier, "frontier point")}.`;
  await chart.draw(
    {
      ...lookOf(series, state, inks()),
      x: { title: x.title, log: state.logX, domain: worked.domain.x },
      y: { title: y.title, log: state.logY, domain: worked.domain.y },
      description,
    },
    worked.layers,
    narrow ? 360 : 470,
  );
  byId("status").textContent = statusOf(worked, state);
}

/** A button that chooses a point. @param {Point} point @param {string} label */
function chooser(point, label) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "link";
  button.textContent = label;
  button.addEventListener("click", () => choose(point));
  return button;
}

/** @param {Point} point */
function choose(point) {
  state.point = `${rows.hardware[point.row]}:${rows.value(point.row, "point_id")}`;
  history.replaceState(null, "", toHash(state));
  showPoint();
  byId("point-section").scrollIntoView({ block: "nearest", behavior: "smooth" });
}

/** @param {Point} point @param {string} label */
const factsOf = (point, label) => facts(rows, point, label, worked.knobs.h ?? rows.value(point.row, "cache_hit_rate"));

async function showPoint() {
  const said = state.point?.split(":") ?? [];
  const point = worked.points.find(
    (one) => rows.hardware[one.row] === said[0] && rows.value(one.row, "point_id") === said.slice(1).join(":"),
  );
  byId("point-none").hidden = point !== undefined;
  const told = point ? [...factsOf(point, nameOf(rows.hardware[point.row])), ...moreFacts(rows, point)] : [];
  fillList(byId("point"), told);
  byId("turns-section").hidden = point === undefined;
  if (point === undefined) return;
  const mine = turn;
  const turns = await guarded(() => turnsOf(index, state, worked, rows, point));
  if (turns === undefined || mine !== turn) return;
  await showTurns(turns, worked, rows, point);
  /** @type {any} */ (globalThis).explorer.turns = turns;
}

function showTable() {
  const kind = /** @type {HTMLSelectElement} */ (byId("table-kind")).value;
  const points = tablePoints(worked, kind);
  const pages = Math.max(1, Math.ceil(points.length / PAGE_ROWS));
  page = Math.min(page, pages - 1);
  fillPoints(byId("table"), rows, worked, points.slice(page * PAGE_ROWS, (page + 1) * PAGE_ROWS), chooser);
  byId("page").textContent = `${counted(points.length, "row")}, page ${page + 1} of ${pages}`;
  /** @type {HTMLButtonElement} */ (byId("previous")).disabled = page === 0;
  /** @type {HTMLButtonElement} */ (byId("next")).disabled = page === pages - 1;
}

function wireTable() {
  byId("table-kind").addEventListener("change", () => {
    page = 0;
    showTable();
  });
  for (const [id, step] of /** @type {[string, number][]} */ ([
    ["previous", -1],
    ["next", 1],
  ])) {
    byId(id).addEventListener("click", () => {
      page += step;
      showTable();
    });
  }
  byId("csv").addEventListener("click", () => {
    const kind = /** @type {HTMLSelectElement} */ (byId("table-kind")).value;
    const what = { model: state.model, scenario: state.scenario, release: index.release };
    download(
      `agent-pareto-${state.model}-${state.scenario}-${kind}.csv`,
      pointsAsCsv(rows, worked, tablePoints(worked, kind), what),
    );
  });
}

/** @type {import("./chart.js").Chart["onPoint"]} */
function onPoint(drawn, place, byKey) {
  const tip = byId("tip");
  tip.hidden = drawn === null;
  if (drawn === null) return;
  const label = worked.series.find((one) => one.id === drawn.series)?.label ?? "";
  const told = factsOf(drawn.point, label);
  const list = document.createElement("dl");
  fillList(list, told);
  tip.replaceChildren(list);
  const box = byId("plot").getBoundingClientRect();
  // on a narrow screen the tip would cover the plot: there it stands below
  const isNarrow = box.width < 560;
  const left = place.x + 18 + tip.offsetWidth > box.width ? place.x - tip.offsetWidth - 18 : place.x + 18;
  const top = Math.min(place.y - tip.offsetHeight / 2, box.height - tip.offsetHeight);
  tip.style.left = isNarrow ? "0" : `${Math.max(0, left)}px`;
  tip.style.top = isNarrow ? `${box.height + 4}px` : `${Math.max(0, top)}px`;
  if (byKey) byId("spoken").textContent = spoken(told);
}

/** Runs what may fail for want of a file; says so on the page. @template T @param {() => Promise<T>} run */
async function guarded(run) {
  const problem = byId("problem");
  try {
    const result = await run();
    problem.hidden = true;
    return result;
  } catch (error) {
    problem.textContent = `${error instanceof Error ? error.message : error} The page needs the files that \`agent-pareto explorer\` wrote beside it, and a web server: it cannot read them from a file:// address.`;
    problem.hidden = false;
    return undefined;
  }
}

async function start() {
  const read = await guarded(fetchIndex);
  if (read === undefined) return;
  index = read;
  const when = new Date(index.created_at).toISOString().slice(0, 16).replace("T", " ");
  byId("release").textContent = `Release ${index.release}, published ${when} UTC`;
  byId("about").textContent =
    "Figures are the release's own rows, read from its Parquet in this page; what-if figures follow from them by the pipeline's closed-loop equations. Points by roofline say what peak rates allow and are not to be ranked against tables.";
  state = stateOf(location.hash);
  chart = new Chart(byId("chart"), onPoint, (drawn) => choose(drawn.point));
  wireControls(change, () => scenarioOf(index, state));
  wireTheme(byId("theme"), update);
  wireTable();
  addEventListener("hashchange", () => {
    state = stateOf(location.hash);
    update();
  });
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) requestAnimationFrame(update);
    width = innerWidth;
  });
  await update();
}

start();
