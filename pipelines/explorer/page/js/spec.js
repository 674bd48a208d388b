// @ts-check
/** The Vega-Lite specification of the chart: layers over named data sets, which `chart.js` fills. */

/** @typedef {{ text: string, quiet: string, line: string, paper: string, accent: string }} Inks */
/** @typedef {{ title: string, log: boolean, domain: [number, number] }} Scale */

const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif';

/** @param {Inks} inks */
const configuration = (inks) => ({
  font: FONT,
  view: { stroke: null },
  axis: {
    labelFontSize: 12,
    titleFontSize: 13,
    titleFontWeight: 600,
    titlePadding: 10,
    labelColor: inks.quiet,
    titleColor: inks.text,
    gridColor: inks.line,
    domainColor: inks.line,
    tickColor: inks.line,
  },
});

/** Above the plot, where it costs no width. */
const TITLE_ABOVE = { titleAngle: 0, titleAlign: "left", titleAnchor: "end", titleX: 0, titleY: -14 };

/** Round numbers of a logarithmic axis. @param {[number, number]} domain @param {number} most */
export function logTicks([low, high], most) {
  for (const ladder of [[1, 1.5, 2, 3, 4, 5, 6, 8], [1, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]]) {
    const ticks = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
      for (const step of ladder) {
        const value = Number((step * 10 ** power).toPrecision(12));
        if (value >= low && value <= high) ticks.push(value);
      }
    }
    if (ticks.length <= most) return ticks;
  }
  return undefined;
}

/** @param {Scale} scale @param {number} ticks @param {Inks} inks @param {object} more */
function channel(scale, ticks, inks, more) {
  const values = scale.log ? logTicks(scale.domain, ticks) : undefined;
  return {
    type: "quantitative",
    scale: scale.log
      ? { type: "log", domain: scale.domain, nice: false }
      : { type: "linear", domain: scale.domain, nice: false, zero: false },
    axis: {
      title: scale.title,
      format: ",.3~r",
      tickCount: ticks,
      ...(values && { values }),
      labelOverlap: true,
      ...more,
    },
  };
}

/**
 * @param {{ width: number, height: number, x: Scale, y: Scale, series: string[], colours: string[], shapes: string[],
 *   dashes: number[][], inks: Inks, description: string }} wanted
 */
export function specification({ width, height, x, y, series, colours, shapes, dashes, inks, description }) {
  const narrow = width < 480;
  const at = {
    x: { field: "x", ...channel(x, narrow ? 5 : 9, inks, {}) },
    y: {
      field: "y",
      ...channel(y, narrow ? 5 : 7, inks, TITLE_ABOVE),
    },
  };
  const colour = { field: "series", type: "nominal", legend: null, scale: { domain: series, range: colours } };
  const shape = { field: "series", type: "nominal", legend: null, scale: { domain: series, range: shapes } };
  const dash = { field: "series", type: "nominal", legend: null, scale: { domain: series, range: dashes } };
  const names = ["excluded", "below", "beyond", "frontier", "walls", "limits", "best", "focus"];
  return {
    $schema: "https://vega.github.io/schema/vega-lite/v6.json",
    description,
    width,
    height,
    autosize: { type: "fit", contains: "padding" },
    padding: { left: 2, right: narrow ? 8 : 14, top: 6, bottom: 2 },
    background: null,
    datasets: Object.fromEntries(names.map((name) => [name, []])),
    config: configuration(inks),
    layer: [
      {
        data: { name: "excluded" },
        mark: { type: "rect", color: inks.quiet, opacity: 0.1, clip: true },
        encoding: { x: at.x, x2: { field: "x2" } },
      },
      {
        data: { name: "beyond" },
        mark: { type: "point", filled: false, size: 18, strokeWidth: 0.9, opacity: 0.45, clip: true, shape: "circle" },
        encoding: { ...at, color: colour },
      },
      {
        data: { name: "below" },
        mark: { type: "point", filled: true, size: 15, opacity: 0.38, clip: true, shape: "circle" },
        encoding: { ...at, color: colour },
      },
      {
        data: { name: "frontier" },
        mark: { type: "line", strokeWidth: 2, clip: true },
        encoding: { ...at, color: colour, strokeDash: dash, order: { field: "x", type: "quantitative" } },
      },
      {
        data: { name: "walls" },
        mark: {
          type: "point",
          filled: false,
          shape: "stroke",
          angle: 90,
          size: 150,
          strokeWidth: 2,
          opacity: 0.8,
          clip: true,
        },
        encoding: { ...at, color: colour },
      },
      {
        data: { name: "frontier" },
        mark: {
          type: "point",
          filled: true,
          size: narrow ? 46 : 58,
          opacity: 1,
          stroke: inks.paper,
          strokeWidth: 1,
          clip: true,
        },
        encoding: { ...at, fill: colour, shape },
      },
      {
        data: { name: "limits" },
        mark: { type: "rule", color: inks.text, strokeDash: [5, 4], strokeWidth: 1.5, clip: true },
        encoding: { x: at.x },
      },
      {
        data: { name: "limits" },
        mark: {
          type: "text",
          color: inks.text,
          align: "right",
          baseline: "top",
          dx: -4,
          dy: 2,
          fontSize: 12,
          angle: 0,
          y: 0,
          clip: true,
        },
        encoding: { x: at.x, text: { field: "label" } },
      },
      {
        data: { name: "best" },
        mark: { type: "point", filled: false, shape: "circle", size: 260, strokeWidth: 2.5, opacity: 1, clip: true },
        encoding: { ...at, color: colour },
      },
      {
        data: { name: "focus" },
        mark: {
          type: "point",
          filled: false,
          shape: "circle",
          size: 170,
          color: inks.text,
          strokeWidth: 2,
          opacity: 1,
          clip: true,
        },
        encoding: at,
      },
    ],
  };
}

/**
 * A figure by turn: one line, or one for hits and one for misses.
 * @param {{ width: number, height: number, title: string, colours: string[], inks: Inks,
 *   values: { turn: number, value: number, kind: string }[] }} wanted
 */
export function smallSpecification({ width, height, title, values, colours, inks }) {
  const one = values.every(({ kind }) => kind === "");
  const kinds = { domain: ["hit", "miss"], range: colours };
  const colour = one ? { value: inks.text } : { field: "kind", type: "nominal", legend: null, scale: kinds };
  const turns = new Set(values.map(({ turn }) => turn)).size;
  return {
    $schema: "https://vega.github.io/schema/vega-lite/v6.json",
    width,
    height,
    autosize: { type: "fit", contains: "padding" },
    padding: { left: 2, right: 8, top: 6, bottom: 2 },
    background: null,
    data: { values },
    config: configuration(inks),
    mark: { type: "line", strokeWidth: 2, point: turns > 40 ? false : { size: 34, filled: true } },
    encoding: {
      x: {
        field: "turn",
        type: "quantitative",
        scale: { zero: false, nice: false },
        axis: { title: "turn", tickMinStep: 1, tickCount: 6 },
      },
      y: { field: "value", type: "quantitative", axis: { title, tickCount: 5, format: ",.4~r", ...TITLE_ABOVE } },
      color: colour,
      ...(!one && {
        shape: {
          field: "kind",
          type: "nominal",
          legend: null,
          scale: { domain: ["hit", "miss"], range: ["circle", "square"] },
        },
      }),
    },
  };
}
