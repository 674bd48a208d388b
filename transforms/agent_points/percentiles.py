"""Percentiles of turn latency, task time and time per token of each row, from the nodes of its scenario (model.md 5.3).

A turn's own prefill is linear in its new tokens and their attention; what it shares with the batch (queueing, the
others' prefills, TPOT) is the row's mean. The mean over a scenario's turns is the row's own turn latency.
"""

from collections.abc import Callable

import numpy as np

from schemas.arrays import Array, Flags
from schemas.models import ModelSpec
from schemas.scenarios import Scenario
from transforms.agent_points.carriers.workload import Prefill
from transforms.agent_points.prepare import RowGroup
from transforms.agent_points.rows.columns import PREFILL_SLOPES
from transforms.agent_points.rows.rows import Rows
from transforms.equations.context import TurnProfile, turn_profile
from transforms.equations.kv_memory import attention_flops
from transforms.numbers import Number
from transforms.spread.forms import percentiles
from transforms.spread.work import ScenarioNodes, scenario_nodes

SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
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

NodesAt = Callable[[float], ScenarioNodes]


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


def scenario_spread(scenario: Scenario, spec: ModelSpec, *, aggregated: bool) -> NodesAt:
    """The nodes of the scenario's turns and tasks on a model, at any hit rate."""
    return lambda hit_rate: scenario_nodes(scenario, spec.attention, hit_rate, prefill_sees_output=aggregated)


def add_percentiles(rows: Rows, hit_rate: Number, nodes_at: NodesAt) -> Rows:
    """Adds the percentiles to rows with turn figures and ``PREFILL_SLOPES``, at one hit rate or one for each."""
    if not isinstance(hit_rate, np.ndarray):
        return rows.with_figures(_percentiles(rows, nodes_at(float(hit_rate))))
    levels = _HIT_RATES[np.searchsorted((_HIT_RATES[:-1] + _HIT_RATES[1:]) / 2, np.nan_to_num(hit_rate))]
    found: dict[str, Array] = {}
    for level in np.unique(levels):
        here = np.flatnonzero(levels == level)
        for name, values in _percentiles(rows.take(here), nodes_at(float(level))).items():
            found.setdefault(name, np.full(len(rows), np.nan))[here] = values
    return rows.with_figures(found)


def _mean_prefill(turns: TurnProfile, new: Array, spec: ModelSpec) -> Prefill:
    return Prefill(turns.mean(new), turns.mean(attention_flops(spec.attention, turns.context - new, new)))


def _percentiles(rows: Rows, nodes: ScenarioNodes) -> dict[str, Array]:
    """The columns of rows that share their scenario's nodes; NaN where a row has no figures."""
    per_token, per_flop, tpot, latency = (rows[name] for name in (*PREFILL_SLOPES, "tpot_ms", "turn_latency_ms"))
    known = np.isfinite(per_token + per_flop + tpot + latency)
    if not known.all():
        return _with_unknown(known, _percentiles(rows.take(known), nodes))
    # what all turns share is what is left of the row's mean
    own = zip((per_token, per_flop, tpot), nodes.turns.means[1:], strict=True)
    forms = [latency - sum(form * mean for form, mean in own), per_token, per_flop, tpot]
    shares = tuple(SHARES.values())
    turns = percentiles(nodes.turns, forms, shares)
    tasks = percentiles(nodes.tasks, [*forms, 1e3], shares) / 1e3
    (of_a_token,) = percentiles(nodes.per_token, forms, (SHARES["p90"],))
    figures = {f"turn_latency_{name}_ms": values for name, values in zip(SHARES, turns, strict=True)}
    figures |= {f"task_time_{name}_s": values for name, values in zip(SHARES, tasks, strict=True)}
    return figures | {"e2e_tokens_per_s_per_user_p90": 1e3 / of_a_token}


def _with_unknown(known: Flags, found: dict[str, Array]) -> dict[str, Array]:
    whole = {name: np.full(len(known), np.nan) for name in found}
    for name, values in found.items():
        whole[name][known] = values
    return whole
