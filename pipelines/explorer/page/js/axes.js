// @ts-check
/** What can be drawn: the axes, their units and which way is better. */

/**
 * @typedef {object} Axis
 * @property {string} title quantity and unit, as on the axis
 * @property {string} short as in tables
 * @property {string} column the column of `agent_points` that it shows
 * @property {number} scale what a value of the column is multiplied with
 * @property {boolean} lowerIsBetter
 * @property {boolean} [ofOneRow] does not follow from R: known at the published hit rate only
 */

/** @type {Record<string, Axis>} */
export const X_AXES = {
  turn: {
    title: "Turn latency, mean (s)",
    short: "turn latency, s",
    column: "turn_latency_ms",
    scale: 1e-3,
    lowerIsBetter: true,
  },
  task: { title: "Task time (s)", short: "task time, s", column: "task_time_s", scale: 1, lowerIsBetter: true },
  e2e: {
    title: "End-to-end output tokens/s per user",
    short: "e2e tokens/s/user",
    column: "e2e_tokens_per_s_per_user",
    scale: 1,
    lowerIsBetter: false,
  },
  decode: {
    title: "Decode tokens/s per user",
    short: "decode tokens/s/user",
    column: "decode_tokens_per_s_per_user",
    scale: 1,
    lowerIsBetter: false,
    ofOneRow: true,
  },
};

/** @type {Record<string, Axis>} */
export const Y_AXES = {
  tasks: {
    title: "Tasks/hour per GPU",
    short: "tasks/h/GPU",
    column: "tasks_per_hour_per_gpu",
    scale: 1,
    lowerIsBetter: false,
  },
  turns: {
    title: "Turns/s per GPU",
    short: "turns/s/GPU",
    column: "turns_per_s_per_gpu",
    scale: 1,
    lowerIsBetter: false,
  },
  tokens: {
    title: "Output tokens/s per GPU",
    short: "output tokens/s/GPU",
    column: "output_tokens_per_s_per_gpu",
    scale: 1,
    lowerIsBetter: false,
  },
  sessions: {
    title: "Concurrent sessions per GPU",
    short: "sessions/GPU",
    column: "sessions_per_gpu",
    scale: 1,
    lowerIsBetter: false,
  },
  cost: { title: "Cost per task (USD)", short: "USD/task", column: "usd_per_task", scale: 1, lowerIsBetter: true },
};

/** Limits that a user can set; each stands on one column. */
export const LIMITS =
  /** @type {Record<string, { label: string, column: string, scale: number, atMost: boolean }>} */ ({
    turnLimit: { label: "turn latency at most (s)", column: "turn_latency_ms", scale: 1e-3, atMost: true },
    taskLimit: { label: "task time at most (s)", column: "task_time_s", scale: 1, atMost: true },
    e2eLimit: {
      label: "end-to-end tokens/s per user at least",
      column: "e2e_tokens_per_s_per_user",
      scale: 1,
      atMost: false,
    },
    decodeLimit: {
      label: "decode tokens/s per user at least",
      column: "decode_tokens_per_s_per_user",
      scale: 1,
      atMost: false,
    },
  });
