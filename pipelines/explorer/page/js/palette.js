// @ts-check
/** Colours that colour-blind readers tell apart (after Okabe and Ito), one set for each background, and shapes. */

const LIGHT = ["#0072B2", "#D55E00", "#00825F", "#A8478F", "#B97A00", "#3A9BD0", "#5C6470", "#8A1F4D"];
const DARK = ["#5AB4F0", "#FF8552", "#34CBA0", "#DE93C8", "#F2B134", "#A5DCFA", "#C3CAD4", "#E27CA4"];
export const SHAPES = [
  "circle",
  "square",
  "triangle-up",
  "diamond",
  "triangle-down",
  "cross",
  "triangle-right",
  "triangle-left",
];

/** @param {number} place @param {boolean} dark */
export const colour = (place, dark) => (dark ? DARK : LIGHT)[place % LIGHT.length];
/** Places of the same colour have other shapes. @param {number} place */
export const symbol = (place) => SHAPES[(place + 3 * Math.floor(place / LIGHT.length)) % SHAPES.length];

/** What the chart takes from the page's own colours. */
export function inks() {
  const style = getComputedStyle(document.documentElement);
  const of = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
  return { text: of("--text"), quiet: of("--quiet"), line: of("--line"), paper: of("--paper"), accent: of("--accent") };
}

/** Path of a symbol in a box from -1 to 1, for legends. @param {string} shape */
export function symbolPath(shape) {
  const paths = /** @type {Record<string, string>} */ ({
    circle: "M-.8 0a.8 .8 0 1 0 1.6 0a.8 .8 0 1 0 -1.6 0Z",
    square: "M-.72-.72h1.44v1.44h-1.44Z",
    "triangle-up": "M0-.85L.95.75H-.95Z",
    "triangle-down": "M0 .85L.95-.75H-.95Z",
    "triangle-right": "M.85 0L-.75.95V-.95Z",
    "triangle-left": "M-.85 0L.75.95V-.95Z",
    diamond: "M0-1L.8 0L0 1L-.8 0Z",
    cross: "M-.3-.9h.6v.6h.6v.6h-.6v.6h-.6v-.6h-.6v-.6h.6Z",
  });
  return paths[shape];
}
