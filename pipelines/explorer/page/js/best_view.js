// @ts-check
/** The best configuration of each series within the limits, as a table. */
import { byId } from "./controls.js";
import { figure, shape } from "./format.js";
import { coordinate } from "./series.js";
import { fillTable } from "./tables.js";

/**
 * @param {import("./view.js").Worked} worked @param {import("./lake.js").Rows} rows
 * @param {(point: import("./evaluate.js").Point, label: string) => Node} chooser a button that chooses the point
 */
export function showBest(worked, rows, chooser) {
  const { best, limits, y, x } = worked;
  byId("best-heading").textContent = limits.length ? "Best within the limits" : "Best without limits";
  const head = [
    "GPU",
    "configuration",
    "engine",
    "turn latency, s",
    "task time, s",
    "e2e tokens/s/user",
    y.short,
    "sessions",
    "GPUs",
  ];
  const lines = best.map(({ series, point }) => {
    if (point === null) return [series.label, "none within the limits", "", "–", "–", "–", "–", "–", "–"];
    const { figures } = point;
    return [
      series.label,
      chooser(
        point,
        shape((name) => rows.value(point.row, name)),
      ),
      String(rows.value(point.row, "backend")),
      figure(figures.turn_latency_ms / 1e3),
      figure(figures.task_time_s),
      figure(figures.e2e_tokens_per_s_per_user),
      figure(coordinate(point, y)),
      figure(figures.sessions),
      figure(rows.value(point.row, "gpus_per_replica")),
    ];
  });
  fillTable(byId("best"), head, lines, 3);
  byId("best-note").textContent = limits.length
    ? `${y.lowerIsBetter ? "Lowest" : "Highest"} ${y.short} of all feasible points within the limits; points between rows are not considered, except where a curve meets the KV wall.`
    : `Set a limit to see the best configuration within it; its line appears on the chart where it bears on ${x.short}.`;
}
