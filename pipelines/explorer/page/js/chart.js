// @ts-check
/** One chart: a Vega view on a canvas, the point nearest to the pointer, and the arrow keys along a frontier. */
import { specification } from "./spec.js";
import { vegaView } from "./vega_view.js";

/** @typedef {import("./evaluate.js").Point} Point */
/** @typedef {{ x: number, y: number, series: string, point: Point }} Drawn */
/**
 * @typedef {object} Layers what is drawn, by data set
 * @property {Drawn[]} frontier @property {Drawn[]} below @property {Drawn[]} beyond @property {Drawn[]} walls
 * @property {Drawn[]} best @property {{ x: number, x2: number }[]} excluded @property {{ x: number, label: string }[]} limits
 */
/** @typedef {Omit<Parameters<typeof specification>[0], "width" | "height">} Look */

/** A point this near to the pointer is meant, in pixels. */
const REACH = 22;

export class Chart {
  /**
   * @param {HTMLElement} box @param {(drawn: Drawn | null, place: { x: number, y: number }, byKey: boolean) => void} onPoint
   * @param {(drawn: Drawn) => void} onChoose
   */
  constructor(box, onPoint, onChoose) {
    this.box = box;
    this.onPoint = onPoint;
    this.onChoose = onChoose;
    /** @type {any} */
    this.view = null;
    this.looks = "";
    /** @type {Layers | null} */
    this.layers = null;
    /** @type {Drawn | null} */
    this.focused = null;
    box.addEventListener("pointermove", (event) => this.#point(event));
    box.addEventListener("pointerleave", () => this.focus(null));
    box.addEventListener("click", (event) => {
      this.#point(event);
      if (this.focused) this.onChoose(this.focused);
    });
    box.addEventListener("keydown", (event) => this.#key(event));
    box.addEventListener("blur", () => this.focus(null));
  }

  /** @param {Look} look @param {Layers} layers @param {number} height */
  async draw(look, layers, height) {
    this.layers = layers;
    this.focused = null;
    const width = Math.max(240, Math.floor(this.box.clientWidth));
    const { description, ...drawn } = look;
    const looks = JSON.stringify([drawn, width, height]);
    if (looks !== this.looks) {
      this.view?.finalize();
      this.view = vegaView(specification({ ...look, width, height }), { renderer: "canvas", hover: false });
      this.view.initialize(this.box);
      this.looks = looks;
    }
    // Vega has said otherwise: arrow keys must reach the chart through a screen reader
    this.box.setAttribute("role", "application");
    this.box.setAttribute("aria-roledescription", "chart");
    this.box.setAttribute("aria-label", description);
    for (const name of /** @type {const} */ (["excluded", "below", "beyond", "frontier", "walls", "limits", "best"])) {
      this.view.data(name, layers[name].map(plain));
    }
    this.view.data("focus", []);
    await this.view.runAsync();
    // the box speaks for the chart; the canvas in it has nothing to add
    for (const canvas of this.box.querySelectorAll("canvas")) canvas.setAttribute("aria-hidden", "true");
  }

  /** @param {Drawn | null} drawn @param {boolean} [byKey] */
  focus(drawn, byKey = false) {
    if (drawn === this.focused || this.view === null) return;
    this.focused = drawn;
    this.view.data("focus", drawn ? [plain(drawn)] : []).runAsync();
    this.onPoint(drawn, drawn ? this.place(drawn) : { x: 0, y: 0 }, byKey);
  }

  /** Where a point stands in the box, in pixels. @param {{ x: number, y: number }} drawn */
  place(drawn) {
    const [left, top] = this.view.origin();
    const padding = this.view.padding();
    return {
      x: left + (padding.left ?? 0) + this.view.scale("x")(drawn.x),
      y: top + (padding.top ?? 0) + this.view.scale("y")(drawn.y),
    };
  }

  /** @param {MouseEvent} event */
  #point(event) {
    if (this.layers === null) return;
    const box = this.box.getBoundingClientRect();
    const at = { x: event.clientX - box.left, y: event.clientY - box.top };
    this.focus(this.#nearest(at));
  }

  /** @param {{ x: number, y: number }} at */
  #nearest(at) {
    const layers = /** @type {Layers} */ (this.layers);
    const [scaleX, scaleY] = [this.view.scale("x"), this.view.scale("y")];
    const origin = this.place({ x: scaleX.domain()[0], y: scaleY.domain()[0] });
    const start = { x: origin.x - scaleX(scaleX.domain()[0]), y: origin.y - scaleY(scaleY.domain()[0]) };
    /** @type {Drawn | null} */
    let nearest = null;
    let least = REACH * REACH;
    // a point of the frontier is easier to hit than one below it
    for (const [drawn, weight] of /** @type {[Drawn[], number][]} */ ([
      [layers.frontier, 0.4],
      [layers.walls, 0.7],
      [layers.below, 1],
      [layers.beyond, 1],
    ])) {
      for (const one of drawn) {
        const dx = start.x + scaleX(one.x) - at.x;
        const dy = start.y + scaleY(one.y) - at.y;
        const distance = weight * (dx * dx + dy * dy);
        if (distance < least) {
          least = distance;
          nearest = one;
        }
      }
    }
    return nearest;
  }

  /** Left and right along a frontier, up and down between frontiers, Enter chooses. @param {KeyboardEvent} event */
  #key(event) {
    const points = this.layers?.frontier ?? [];
    if (points.length === 0) return;
    if (event.key === "Enter" || event.key === " ") {
      if (this.focused) this.onChoose(this.focused);
      event.preventDefault();
      return;
    }
    const step = /** @type {Record<string, number>} */ ({ ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 })[
      event.key
    ];
    if (step === undefined) return;
    event.preventDefault();
    const here = this.focused ?? points[0];
    const ofSeries = points.filter((one) => one.series === here.series);
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      const at = this.focused ? ofSeries.indexOf(here) + step : 0;
      this.focus(ofSeries[Math.min(Math.max(at, 0), ofSeries.length - 1)], true);
      return;
    }
    const series = [...new Set(points.map((one) => one.series))];
    const next = series[(series.indexOf(here.series) + step + series.length) % series.length];
    const others = points.filter((one) => one.series === next);
    const distance = (/** @type {Drawn} */ one) => Math.abs(Math.log(one.x / here.x));
    this.focus(
      others.reduce((best, one) => (distance(one) < distance(best) ? one : best)),
      true,
    );
  }
}

/**
 * What Vega gets: it keeps a symbol of its own on each datum, and a point is drawn in several layers.
 * @param {Record<string, any>} drawn
 */
function plain({ point, ...rest }) {
  return rest;
}
