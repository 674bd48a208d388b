// @ts-check
/** Colour, shape and dash of each series: colour is the GPU; shape the GPU too, or the precision where several are shown. */
import { colour, symbol } from "./palette.js";
import { isDark } from "./theme.js";

/** @param {import("./series.js").Series} one @param {import("./state.js").State} state @param {string[]} dtypes */
export function lookOfSeries(one, state, dtypes) {
  const place = state.hardware.indexOf(one.hardware);
  return {
    colour: colour(place, isDark()),
    shape: symbol(state.dtype === "all" ? dtypes.indexOf(one.dtype) : place),
    dash: one.isRoofline ? [3, 4] : [1, 0],
  };
}

/** @param {import("./series.js").Series[]} series @param {import("./state.js").State} state @param {import("./spec.js").Inks} inks */
export function lookOf(series, state, inks) {
  const dtypes = [...new Set(series.map((one) => one.dtype))].sort();
  const looks = series.map((one) => lookOfSeries(one, state, dtypes));
  return {
    series: series.map((one) => one.id),
    colours: looks.map((look) => look.colour),
    shapes: looks.map((look) => look.shape),
    dashes: looks.map((look) => look.dash),
    inks,
  };
}
