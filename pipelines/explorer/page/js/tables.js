// @ts-check
/** Tables beside the charts, and the rows as CSV. */
import { X_AXES, Y_AXES } from "./axes.js";
import { figure, flags, limitInWords, shape } from "./format.js";
import { coordinate } from "./series.js";

/** @typedef {import("./lake.js").Rows} Rows */
/** @typedef {import("./evaluate.js").Point} Point */
/** @typedef {import("./view.js").Worked} Worked */

export const PAGE_ROWS = 20;

/**
 * @param {HTMLTableElement} table @param {string[]} head @param {(string | Node)[][]} lines
 * @param {number} texts columns from the left that are text; the others are numbers
 */
export function fillTable(table, head, lines, texts) {
  const row = (/** @type {(string | Node)[]} */ cells, /** @type {"th" | "td"} */ tag) => {
    const line = document.createElement("tr");
    cells.forEach((content, at) => {
      const cell = document.createElement(tag);
      if (tag === "th") cell.setAttribute("scope", "col");
      if (at >= texts) cell.className = "number";
      cell.append(content);
      line.append(cell);
    });
    return line;
  };
  const top = document.createElement("thead");
  top.append(row(head, "th"));
  const body = document.createElement("tbody");
  body.append(...lines.map((cells) => row(cells, "td")));
  table.tHead?.remove();
  for (const old of [...table.tBodies]) old.remove();
  table.append(top, body);
}

/** What the table of points has, by kind of point. @param {Worked} worked @param {string} kind */
export function tablePoints(worked, kind) {
  return worked.series.flatMap((series) => {
    const beyond = kind === "all" ? [...series.beyond, ...series.impossible] : [];
    const below = kind === "frontier" ? [] : series.below;
    return [...series.frontier, ...below, ...beyond].map((point) => ({ series, point }));
  });
}

/**
 * @param {HTMLTableElement} table @param {Rows} rows @param {Worked} worked
 * @param {{ series: import("./series.js").Series, point: Point }[]} points
 * @param {(point: Point, label: string) => Node} chooser a button that chooses the point
 */
export function fillPoints(table, rows, worked, points, chooser) {
  const { x, y } = worked;
  const head = ["GPU", "configuration", "engine", "binding limit", x.short, y.short, "sessions", "fit", "GPUs"];
  const lines = points.map(({ series, point }) => {
    const get = (/** @type {string} */ name) => rows.value(point.row, name);
    return [
      series.label,
      chooser(point, shape(get)),
      [`${get("backend")}${series.isRoofline ? " (roofline)" : ""}`, ...flags(get)].join("; "),
      limitInWords(get("binding_limit")),
      figure(coordinate(point, x)),
      figure(coordinate(point, y)),
      figure(point.figures.sessions),
      figure(point.figures.max_sessions),
      figure(get("gpus_per_replica")),
    ];
  });
  fillTable(table, head, lines, 4);
}

const IDENTITY = [
  "point_id",
  "source",
  "source_file",
  "source_row",
  "weight_dtype",
  "kv_dtype",
  "backend",
  "backend_version",
  "serving_mode",
  "tp",
  "pp",
  "dp",
  "moe_tp",
  "moe_ep",
  "prefill_workers",
  "prefill_tp",
  "prefill_pp",
  "prefill_dp",
  "decode_workers",
  "decode_tp",
  "decode_pp",
  "decode_dp",
  "gpus_per_replica",
  "concurrency_reported",
  "batch_per_rank",
  "transfer_method",
  "database_mode",
  "slower_than_roofline",
  "expected_error_fraction",
  "extrapolated",
  "binding_limit",
];

/**
 * The points as CSV, every digit, figures at the page's pause, hit rate and sessions.
 * @param {Rows} rows @param {Worked} worked @param {ReturnType<typeof tablePoints>} points
 * @param {{ model: string, scenario: string, release: string }} what
 */
export function pointsAsCsv(rows, worked, points, what) {
  const axes = [...Object.values(X_AXES), ...Object.values(Y_AXES)].map((axis) => axis.column);
  const figures = [...new Set(["sessions", "max_sessions", "activity_fraction", "ttft_ms", "tpot_ms", ...axes])];
  const head = [
    "release",
    "model",
    "scenario",
    "hardware",
    "think_time_s",
    "cache_hit_rate",
    ...IDENTITY,
    ...figures,
    "at_kv_wall",
    "feasible",
    "infeasible_reason",
    "on_drawn_frontier",
  ];
  const best = new Set(worked.series.flatMap((series) => series.frontier));
  const lines = points.map(({ point }) => [
    what.release,
    what.model,
    what.scenario,
    rows.hardware[point.row],
    worked.knobs.z,
    worked.knobs.h ?? rows.value(point.row, "cache_hit_rate"),
    ...IDENTITY.map((name) => rows.value(point.row, name)),
    ...figures.map((name) => /** @type {any} */ (point.figures)[name]),
    point.atWall,
    point.feasible,
    point.reason,
    best.has(point),
  ]);
  return [head, ...lines].map((cells) => cells.map(csvCell).join(",")).join("\r\n") + "\r\n";
}

/** @param {any} value */
function csvCell(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  const text = String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** @param {string} name @param {string} text */
export function download(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
