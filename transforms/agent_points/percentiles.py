"""Percentiles of turn latency, TTFT, task time and time per token of each row (model.md 5.3, docs/tails.md).

A turn's own prefill is linear in its new tokens and their attention, and the nodes of its scenario have how these vary;
what the others' prefills and decodes add varies too (``transforms/tails``). The mean over a scenario's turns is the
row's own turn latency.
"""

from dataclasses import dataclass

import numpy as np

from schemas.arrays import Array, Flags
from schemas.models import ModelSpec
from schemas.scenarios import Scenario
from transforms.agent_points.carriers.workload import Prefill
from transforms.agent_points.prepare import RowGroup
from transforms.agent_points.rows.columns import PREFILL_SLOPES
from transforms.agent_points.rows.rows import Rows
from transforms.equations.context import TurnProfile, turn_profile
from transforms.equations.kv_memory import attention_flops, kv_read_bytes_per_gpu
from transforms.equations.transfer import KV_READ_EFFICIENCY
from transforms.numbers import Number
from transforms.spread.forms import percentiles
from transforms.tails.replica import (
    LEAST_SHARE,
    SHARES,
    TailNodes,
    Tails,
    aggregated_tails,
    disaggregated_tails,
    tail_nodes,
)
from transforms.tails.waits import over_turns

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
#: The heavy prefill, where hits and misses are alike, is so many times the light one.
_HEAVIER = 2.0


@dataclass(frozen=True)
class Spread:
    """How the turns of a scenario on a model vary, by themselves and among others, in one serving mode."""

    scenario: Scenario
    spec: ModelSpec
    aggregated: bool

    def at(self, hit_rate: float) -> TailNodes:
        """The nodes at a hit rate."""
        return tail_nodes(self.scenario, self.spec.attention, hit_rate, prefill_sees_output=self.aggregated)


def add_prefill_slopes(rows: Rows, group: RowGroup, scenario: Scenario, spec: ModelSpec) -> Rows:
    """Adds ``PREFILL_SLOPES``, taken between the scenario's mean hit and its mean miss, to the rows of the group."""
    turns = turn_profile(scenario, prefill_sees_output=group.aggregated)
    light, heavy = (_mean_prefill(turns, new, spec) for new in (turns.new_on_hit, turns.new_on_miss))
    if heavy.new_tokens < 1.01 * light.new_tokens:
        heavy = Prefill(_HEAVIER * light.new_tokens, _HEAVIER**2 * light.attention_flops)
    if len(group.carriers) == 1:
        return rows.with_figures(
            dict(zip(PREFILL_SLOPES, group.carriers[0][0].prefill_slopes(light, heavy), strict=True))
        )
    found = np.empty((2, len(rows)))
    for carrier, places in group.carriers:
        found[0, places], found[1, places] = carrier.prefill_slopes(light, heavy)
    return rows.with_figures(dict(zip(PREFILL_SLOPES, found, strict=True)))


def add_percentiles(rows: Rows, hit_rate: Number, spread: Spread) -> Rows:
    """Adds the percentiles to rows with session and turn figures and ``PREFILL_SLOPES``, at one hit rate or one for
    each."""
    rows = rows.with_private(**_of_load(rows, spread))
    if not isinstance(hit_rate, np.ndarray):
        return rows.with_figures(_percentiles(rows, spread, spread.at(float(hit_rate))))
    levels = _HIT_RATES[np.searchsorted((_HIT_RATES[:-1] + _HIT_RATES[1:]) / 2, np.nan_to_num(hit_rate))]
    found: dict[str, Array] = {}
    for level in np.unique(levels):
        here = np.flatnonzero(levels == level)
        for name, values in _percentiles(rows.take(here), spread, spread.at(float(level))).items():
            found.setdefault(name, np.full(len(rows), np.nan))[here] = values
    return rows.with_figures(found)


def _of_load(rows: Rows, spread: Spread) -> dict[str, Array]:
    """``_decode_share_ms``, what a session's context adds to the decode steps of another's turn; and the stations at
    which prompts meet, ``_prompt_stations``."""
    scenario, of = spread.scenario, rows.configurations
    context = scenario.mean_context_tokens + scenario.output_tokens_per_turn / 2
    element, tp = of.rows["_kv_element_bytes"], of.rows["_rank_tp"]
    read = kv_read_bytes_per_gpu(spread.spec.attention, context, element, tp)
    bandwidth = of.rows["_decode_hbm_bandwidth_bytes_per_s"] * KV_READ_EFFICIENCY
    stations = of.rows["_stations"]
    if not spread.aggregated:
        stations = of.rows["prefill_workers"] * of.rows["prefill_dp"]
    every = np.ones(len(rows))
    return {
        "_decode_share_ms": every * of.to_rows(1e3 * (scenario.output_tokens_per_turn - 1.0) * read / bandwidth),
        "_prompt_stations": every * of.to_rows(stations),
    }


def _mean_prefill(turns: TurnProfile, new: Array, spec: ModelSpec) -> Prefill:
    return Prefill(turns.mean(new), turns.mean(attention_flops(spec.attention, turns.context - new, new)))


def _percentiles(rows: Rows, spread: Spread, nodes: TailNodes) -> dict[str, Array]:
    """The columns of rows that share their scenario's nodes; NaN where a row has no figures."""
    per_token, per_flop, tpot, latency = (rows[name] for name in (*PREFILL_SLOPES, "tpot_ms", "turn_latency_ms"))
    known = np.isfinite(per_token + per_flop + tpot + latency + rows["sessions"])
    if not known.all():
        return _with_unknown(known, _percentiles(rows.take(known), spread, nodes))
    # what all turns share is what is left of the row's mean
    own = zip((per_token, per_flop, tpot), nodes.means[1:], strict=True)
    tails = _tails(rows, spread, nodes)
    base = latency - sum(form * mean for form, mean in own)
    forms = [base, per_token, per_flop, tpot]
    shares = tuple(SHARES.values())
    turns = percentiles(nodes.turns, [*forms, *tails.wait], shares)
    in_a_task = over_turns(*tails.wait, spread.scenario.turns)
    tasks = percentiles(nodes.tasks, [*forms, 1e3, *in_a_task], shares) / 1e3
    per_token = percentiles(nodes.per_token, [*forms, *tails.wait], shares)
    least = LEAST_SHARE * latency
    figures = {f"turn_latency_{name}_ms": np.maximum(each, least) for name, each in zip(SHARES, turns, strict=True)}
    for name, values in zip(SHARES, tails.ttft, strict=True):  # a turn's first token is not after its last
        figures[f"ttft_{name}_ms"] = np.minimum(values, figures[f"turn_latency_{name}_ms"])
    figures |= {f"task_time_{name}_s": values for name, values in zip(SHARES, tasks, strict=True)}
    figures |= {f"e2e_tokens_per_s_per_user_{name}": 1e3 / each for name, each in zip(SHARES, per_token, strict=True)}
    return figures | _of_output_token(tpot, tails, nodes)


def _of_output_token(tpot: Array, tails: Tails, nodes: TailNodes) -> dict[str, Array]:
    """Percentiles of a turn's time per output token; no less than a step in which nobody prefills."""
    later = max(nodes.means[3], 1e-9)
    least = np.maximum(tails.step, LEAST_SHARE * tpot)
    forms = [tpot, *(np.minimum(part / later, tpot) for part in tails.decode_wait)]
    found = np.maximum(percentiles(nodes.output_token, forms, tuple(SHARES.values())), least)
    return {f"tpot_{name}_ms": values for name, values in zip(SHARES, found, strict=True)}


def _tails(rows: Rows, spread: Spread, nodes: TailNodes) -> Tails:
    """What the wait of a turn varies by, and the percentiles of TTFT."""
    slopes = rows[PREFILL_SLOPES[0]], rows[PREFILL_SLOPES[1]]
    turn = rows["turn_latency_ms"], rows["activity_fraction"]
    sessions, decode_ms = rows["sessions"], rows["_decode_share_ms"]
    at_prompts = sessions / rows["_prompt_stations"]
    if spread.aggregated:
        return aggregated_tails(slopes, rows["tpot_ms"], at_prompts, turn, decode_ms, nodes)
    at = at_prompts, sessions / rows["_stations"]
    return disaggregated_tails(slopes, rows["ttft_ms"], at, turn, decode_ms, nodes)


def _with_unknown(known: Flags, found: dict[str, Array]) -> dict[str, Array]:
    whole = {name: np.full(len(known), np.nan) for name in found}
    for name, values in found.items():
        whole[name][known] = values
    return whole
