// @ts-check
/**
 * Which points no other beats: none with less-or-equal cost and more-or-equal gain, one of them strictly. Points with
 * equal coordinates stand or fall together (`transforms/frontier.py`).
 * @param {Float64Array} cost @param {Float64Array} gain
 * @returns {number[]} the positions on the frontier, by rising cost
 */
export function frontier(cost, gain) {
  const order = Uint32Array.from(cost.keys()).sort((one, other) => cost[one] - cost[other] || gain[other] - gain[one]);
  /** @type {number[]} */
  const kept = [];
  let best = -Infinity;
  for (let start = 0; start < order.length;) {
    const here = cost[order[start]];
    const highest = gain[order[start]];
    let end = start;
    while (end < order.length && cost[order[end]] === here) end += 1;
    if (highest > best) {
      for (let at = start; at < end && gain[order[at]] === highest; at += 1) kept.push(order[at]);
      best = highest;
    }
    start = end;
  }
  return kept;
}
