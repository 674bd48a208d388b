// @ts-check
/** The points in the groups in which they compete: one frontier for each GPU and weight precision. */
import { frontier } from "./frontier.js";

/** @typedef {import("./lake.js").Rows} Rows */
/** @typedef {import("./evaluate.js").Point} Point */
/** @typedef {import("./axes.js").Axis} Axis */

/**
 * @typedef {object} Series
 * @property {string} id "hardware dtype"
 * @property {string} hardware @property {string} dtype
 * @property {string} label
 * @property {boolean} isRoofline all of its points come from peak rates, none from a table
 * @property {Point[]} frontier by rising x
 * @property {Point[]} below feasible, not on the frontier
 * @property {Point[]} walls where curves meet the KV wall
 * @property {Point[]} beyond what memory does not hold
 * @property {Point[]} impossible other reasons
 */

/** @param {Point} point @param {Axis} axis */
export const coordinate = (point, axis) => /** @type {any} */ (point.figures)[axis.column] * axis.scale;

/**
 * @param {Rows} rows @param {Point[]} points @param {string} dtype "all" or one
 * @param {Axis} x @param {Axis} y
 * @param {string[]} hardware in the order of the colours
 * @param {(slug: string) => string} nameOf
 * @returns {Series[]}
 */
export function splitSeries(rows, points, dtype, x, y, hardware, nameOf) {
  const dtypes = rows.column("weight_dtype");
  /** @type {Map<string, Map<string, Point[]>>} points by GPU and precision */
  const groups = new Map();
  for (const point of points) {
    const [gpu, precision] = [rows.hardware[point.row], dtypes[point.row]];
    if (dtype !== "all" && precision !== dtype) continue;
    let ofGpu = groups.get(gpu);
    if (ofGpu === undefined) groups.set(gpu, (ofGpu = new Map()));
    const group = ofGpu.get(precision);
    if (group) group.push(point);
    else ofGpu.set(precision, [point]);
  }
  const series = [...groups].flatMap(([gpu, ofGpu]) =>
    [...ofGpu].map(([precision, group]) => {
      const label = dtype === "all" ? `${nameOf(gpu)} ${precision}` : nameOf(gpu);
      return { id: `${gpu} ${precision}`, hardware: gpu, dtype: precision, label, ...places(rows, group, x, y) };
    }),
  );
  const order = (/** @type {{hardware: string}} */ one) => hardware.indexOf(one.hardware);
  return series.sort((one, other) => order(one) - order(other) || (one.dtype < other.dtype ? -1 : 1));
}

/** @param {Rows} rows @param {Point[]} group @param {Axis} x @param {Axis} y */
function places(rows, group, x, y) {
  const sources = rows.column("source");
  const drawable = (/** @type {Point} */ point) =>
    Number.isFinite(coordinate(point, x)) && Number.isFinite(coordinate(point, y));
  const feasible = group.filter((point) => point.feasible && drawable(point));
  const unmeasured = rows.column("unmeasured_load"); // a load beyond those measured takes no part
  const competing = feasible.filter((point) => unmeasured[point.row] !== "beyond");
  const cost = Float64Array.from(competing, (point) => (x.lowerIsBetter ? 1 : -1) * coordinate(point, x));
  const gain = Float64Array.from(competing, (point) => (y.lowerIsBetter ? -1 : 1) * coordinate(point, y));
  const best = frontier(cost, gain).map((at) => competing[at]);
  const isBest = new Set(best);
  return {
    isRoofline: group.every((point) => sources[point.row] === "roofline"),
    frontier: best.sort((one, other) => coordinate(one, x) - coordinate(other, x)),
    below: feasible.filter((point) => !isBest.has(point)),
    walls: feasible.filter((point) => point.atWall),
    beyond: group.filter((point) => point.beyondWall && drawable(point)),
    impossible: group.filter((point) => !point.feasible && !point.beyondWall),
  };
}

/**
 * Of many points one for each cell of a fine grid over the plot, so that a large partition stays quick to draw.
 * @template T
 * @param {T[]} points @param {(point: T) => number} x @param {(point: T) => number} y
 * @param {{ x: [number, number], y: [number, number] }} box its edges, in the units of `x` and `y`
 * @param {{ columns: number, lines: number }} grid
 */
export function thinned(points, x, y, box, { columns, lines }) {
  const seen = new Set();
  return points.filter((point) => {
    const column = Math.floor((columns * (x(point) - box.x[0])) / (box.x[1] - box.x[0]));
    const line = Math.floor((lines * (y(point) - box.y[0])) / (box.y[1] - box.y[0]));
    const cell = column * (lines + 1) + line;
    if (seen.has(cell)) return false;
    seen.add(cell);
    return true;
  });
}
