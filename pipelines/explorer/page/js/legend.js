// @ts-check
/** Legends in the page's own type, so that they wrap on a narrow screen and can be read aloud. */
import { lookOfSeries } from "./looks.js";
import { symbolPath } from "./palette.js";

const SVG = "http://www.w3.org/2000/svg";

/** @param {string} path @param {Record<string, string>} attributes */
function swatch(path, attributes) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "-2.4 -1.4 4.8 2.8");
  svg.setAttribute("aria-hidden", "true");
  const shape = document.createElementNS(SVG, "path");
  shape.setAttribute("d", path);
  for (const [name, value] of Object.entries(attributes)) shape.setAttribute(name, value);
  svg.append(shape);
  return svg;
}

/** @param {Node} picture @param {string} text */
function entry(picture, text) {
  const item = document.createElement("li");
  item.append(picture, text);
  return item;
}

/** @param {HTMLElement} list @param {import("./series.js").Series[]} series @param {import("./state.js").State} state */
export function seriesLegend(list, series, state) {
  const dtypes = [...new Set(series.map((one) => one.dtype))].sort();
  list.replaceChildren(
    ...series.map((one) => {
      const { colour, shape } = lookOfSeries(one, state, dtypes);
      const picture = swatch(symbolPath(shape), { fill: colour });
      const line = document.createElementNS(SVG, "path");
      line.setAttribute("d", "M-2.4 0H2.4");
      line.setAttribute("stroke", colour);
      line.setAttribute("stroke-width", ".35");
      if (one.isRoofline) line.setAttribute("stroke-dasharray", ".5 .5");
      picture.prepend(line);
      const none = one.frontier.length === 0 ? ": nothing feasible" : "";
      return entry(picture, `${one.label}${one.isRoofline ? " (roofline)" : ""}${none}`);
    }),
  );
}

/** @param {HTMLElement} list @param {import("./state.js").State} state @param {boolean} hasLimits */
export function markKey(list, state, hasLimits) {
  const ink = { fill: "currentColor" };
  const line = { fill: "none", stroke: "currentColor", "stroke-width": ".25" };
  const marks = [entry(swatch(symbolPath("circle"), ink), "on the frontier")];
  if (state.below)
    marks.push(
      entry(swatch("M-.45 0a.45 .45 0 1 0 .9 0a.45 .45 0 1 0 -.9 0Z", { ...ink, opacity: ".45" }), "below it"),
    );
  if (state.beyond) {
    marks.push(entry(swatch("M0-1V1", { ...line, "stroke-width": ".4" }), "the curve meets the KV wall"));
    marks.push(
      entry(
        swatch("M-.45 0a.45 .45 0 1 0 .9 0a.45 .45 0 1 0 -.9 0Z", { ...line, opacity: ".6" }),
        "beyond the wall: memory does not hold its sessions",
      ),
    );
  }
  if (hasLimits) marks.push(entry(swatch("M-1 0a1 1 0 1 0 2 0a1 1 0 1 0 -2 0Z", line), "best within the limits"));
  list.replaceChildren(...marks);
}
