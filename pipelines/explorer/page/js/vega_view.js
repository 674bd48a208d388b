// @ts-check
/** A Vega view whose expressions are interpreted: the page's policy lets no text become a script. */
import { View, compile, expressionInterpreter, parse } from "../vendor/vega.min.js";

/** The view of a Vega-Lite specification. @param {object} vegaLite @param {object} options those of Vega's view */
export function vegaView(vegaLite, options) {
  const vega = compile(/** @type {any} */ (vegaLite)).spec;
  return new View(parse(vega, undefined, { ast: true }), { ...options, expr: expressionInterpreter });
}
