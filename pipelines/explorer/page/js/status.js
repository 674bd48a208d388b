// @ts-check
/** What the chart shows, and what it leaves out, in a sentence. */
import { counted, figure } from "./format.js";

/** @param {import("./view.js").Worked} worked @param {import("./state.js").State} state */
export function statusOf({ counts }, state) {
  const rest = [
    `${counted(counts.rows, "row")} of the release`,
    state.c === null
      ? ""
      : `${counted(counts.configurations, "configuration")} at ${counted(state.c, "session")} on ${counted(state.g, "GPU")}, figures of the fuller replicas`,
    `${counts.frontier.toLocaleString("en-US")} on the frontier`,
    `${counts.below.toLocaleString("en-US")} below it`,
    `${counts.beyond.toLocaleString("en-US")} beyond the KV wall`,
    counts.impossible ? `${counts.impossible.toLocaleString("en-US")} not possible at any load` : "",
    counts.outside ? `${counted(counts.outside, "point")} outside the plot` : "",
    counts.thinned > 0
      ? `${counts.thinned.toLocaleString("en-US")} not drawn because another point of the series covers them`
      : "",
  ];
  return `${rest.filter(Boolean).join("; ")}.`;
}

/** What the reader has changed, for the chart's heading. @param {import("./view.js").Worked} worked @param {import("./state.js").State} state */
export function changesOf({ knobs }, state) {
  const changed = [
    knobs.zMoved ? `Z = ${figure(knobs.z)} s` : "",
    knobs.h === null ? "" : `h = ${figure(knobs.h)}`,
    state.c === null ? "" : `${counted(state.c, "session")} on ${counted(state.g, "GPU")}`,
  ].filter(Boolean);
  return changed.length ? `, at ${changed.join(", ")}` : "";
}
