"""Percentiles of turn latency, TTFT, task time and time per token of each row (model.md 5.3, docs/tails.md).

A turn's own prefill is linear in its new tokens and their attention, and the nodes of its scenario have how these vary;
what the others' prefills and decodes add varies too (``transforms/tails``). The mean over a scenario's turns is the
row's own turn latency.
"""

import numpy as np

from schemas.arrays import Array
from transforms.agent_points.agent import Agent
from transforms.agent_points.rows.columns import PREFILL_SLOPES
from transforms.agent_points.rows.gpu import Gpu
from transforms.agent_points.rows.lookups import Deployed
from transforms.agent_points.rows.rows import Rows
from transforms.equations.kv_memory import kv_read_bytes_per_gpu
from transforms.equations.transfer import KV_READ_EFFICIENCY
from transforms.numbers import Number
from transforms.spread.forms import percentiles
from transforms.tails.nodes import TailNodes
from transforms.tails.replica import LEAST_SHARE, SHARES, aggregated_tails, disaggregated_tails
from transforms.tails.waits import over_turns

#: The columns, in this order.
PERCENTILES = (
    *(f"turn_latency_{name}_ms" for name in SHARES),
    *(f"ttft_{name}_ms" for name in SHARES),
    *(f"task_time_{name}_s" for name in SHARES),
    *(f"e2e_tokens_per_s_per_user_{name}" for name in SHARES),
    *(f"tpot_{name}_ms" for name in SHARES),
)
#: Hit rates that rows are told apart by: mostly within a twentieth of their misses, round numbers among them.
_HIT_RATES = np.unique(
    np.round(
        1.0
        - np.concatenate(
            [
                np.arange(first, last, step)
                for first, last, step in (
                    (0.0, 0.002, 0.001),
                    (0.002, 0.01, 0.0005),
                    (0.01, 0.02, 0.001),
                    (0.02, 0.05, 0.002),
                    (0.05, 0.1, 0.005),
                    (0.1, 0.3, 0.01),
                    (0.3, 1.01, 0.02),
                )
            ]
        ),
        4,
    )
)


def add_percentiles(rows: Rows, hit_rate: Number, agent: Agent) -> Rows:
    """Adds the percentiles to rows with session and turn figures and ``PREFILL_SLOPES``, at one hit rate or one for
    each; NaN where a row has no figures."""
    per_token, per_flop, tpot, latency = (rows[name] for name in (*PREFILL_SLOPES, "tpot_ms", "turn_latency_ms"))
    has_figures = np.isfinite(per_token + per_flop + tpot + latency + rows["sessions"])
    figures = {name: np.full(len(rows), np.nan) for name in PERCENTILES}
    levels = np.broadcast_to(_level(hit_rate), len(rows))
    for level in np.unique(levels[has_figures]):
        here = np.flatnonzero(has_figures & (levels == level))
        at_level = rows if len(here) == len(rows) else rows.take(here)
        for name, values in _percentiles(at_level, agent, agent.tails(float(level))).items():
            figures[name][here] = values
    return rows.with_figures(figures)


def _level(hit_rate: Number) -> Number:
    """The hit rate at which rows are evaluated: one for all rows as it is, one for each rounded to ``_HIT_RATES``."""
    if not isinstance(hit_rate, np.ndarray):
        return float(hit_rate)
    return _HIT_RATES[np.searchsorted((_HIT_RATES[:-1] + _HIT_RATES[1:]) / 2, np.nan_to_num(hit_rate))]


def _percentiles(rows: Rows, agent: Agent, nodes: TailNodes) -> dict[str, Array]:
    """``PERCENTILES`` of rows that share their scenario's nodes."""
    slopes = per_token, per_flop = rows[PREFILL_SLOPES[0]], rows[PREFILL_SLOPES[1]]
    latency, tpot, sessions = rows["turn_latency_ms"], rows["tpot_ms"], rows["sessions"]
    turn, decode_ms = (latency, rows["activity_fraction"]), _decode_share_ms(rows, agent)
    if agent.aggregated:
        tails = aggregated_tails(slopes, tpot, sessions / Deployed(rows).stations, turn, decode_ms, nodes)
    else:
        at = sessions / (rows["prefill_workers"] * rows["prefill_dp"]), sessions / Deployed(rows).stations
        tails = disaggregated_tails(slopes, rows["ttft_ms"], at, turn, decode_ms, nodes)
    in_a_task = over_turns(*tails.wait, agent.turns)
    of_tokens = [part / max(nodes.means[3], 1e-9) for part in tails.decode_wait]
    # what all turns share is what is left of the row's mean
    base = latency - sum(form * mean for form, mean in zip((per_token, per_flop, tpot), nodes.means[1:], strict=True))
    forms = [base, per_token, per_flop, tpot]
    shares = tuple(SHARES.values())
    turns = np.maximum(percentiles(nodes.turns, [*forms, *tails.wait], shares), LEAST_SHARE * latency)
    # a turn's first token is not after its last
    first_tokens = [np.minimum(*pair) for pair in zip(tails.ttft, turns, strict=True)]
    tasks = percentiles(nodes.tasks, [*forms, 1e3, *in_a_task], shares) / 1e3
    speeds = 1e3 / percentiles(nodes.per_token, [*forms, *tails.wait], shares)
    # a turn's time per output token is no less than a step in which nobody prefills
    output_tokens = percentiles(nodes.output_token, [tpot, *(np.minimum(wait, tpot) for wait in of_tokens)], shares)
    output_tokens = np.maximum(output_tokens, np.maximum(tails.step, LEAST_SHARE * tpot))
    return dict(zip(PERCENTILES, (*turns, *first_tokens, *tasks, *speeds, *output_tokens), strict=True))


def _decode_share_ms(rows: Rows, agent: Agent) -> Array:
    """What a session's context adds to the decode steps of another's turn."""
    later_tokens, context = agent.output_tokens - 1.0, agent.mean_context_tokens + agent.output_tokens / 2
    deployed = Deployed(rows)
    read = kv_read_bytes_per_gpu(agent.spec.attention, context, deployed.kv_element_bytes, deployed.rank_tp)
    bandwidth = Gpu(rows, "decode").hbm_bandwidth_bytes_per_s * KV_READ_EFFICIENCY
    return np.asarray(1e3 * later_tokens * read / bandwidth)
