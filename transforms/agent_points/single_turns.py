"""Single turns of a task: how much longer each takes than the mean turn, on a hit and on a miss (Steps 4 and 5).

All requests of a batch share its steps, so that TPOT and the others' prefills stay at their means; only a turn's own
prefill differs from turn to turn (model.md 5.3). A task may have hundreds of turns: rows are evaluated at a few, and
what lies between follows from the work of each turn (``TurnWork``), as a prefill's time is linear in the FLOPs of
its attention and, between the turns evaluated, in its tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl

from schemas.arrays import Array
from schemas.models import AttentionGroup
from schemas.options import MappingOptions
from schemas.scenarios import Scenario
from transforms.agent_points.carriers.workload import Prefill, agent_turns, flops_of_turns
from transforms.agent_points.prepare import PreparedPoints, RowGroup
from transforms.agent_points.rows.rows import as_array
from transforms.equations.context import turn_profile
from transforms.equations.kv_memory import session_bytes_on_rank

#: What a row has at the turns evaluated: turn latency less that of the mean turn, in ms.
ON_HIT: Final = ("hit_first_ms", "hit_second_ms", "hit_last_ms")
ON_MISS: Final = ("miss_first_ms", "miss_middle_ms", "miss_last_ms")


@dataclass(frozen=True)
class TurnWork:
    """What each turn's prefill computes; arrays of one entry a turn, tokens and FLOPs of attention."""

    context_tokens: Array
    new_on_hit: Array
    new_on_miss: Array
    flops_on_hit: Array
    flops_on_miss: Array

    @property
    def evaluated_on_hit(self) -> tuple[int, int, int]:
        """Places of the turns of ``ON_HIT``: from the second on, a hit's new tokens are alike."""
        last = len(self.context_tokens) - 1
        return 0, min(1, last), last

    @property
    def evaluated_on_miss(self) -> tuple[int, int, int]:
        """Places of the turns of ``ON_MISS``."""
        last = len(self.context_tokens) - 1
        return 0, (last + 1) // 2, last

    def hit(self, place: int) -> Prefill:
        return Prefill(float(self.new_on_hit[place]), float(self.flops_on_hit[place]))

    def miss(self, place: int) -> Prefill:
        return Prefill(float(self.new_on_miss[place]), float(self.flops_on_miss[place]))


def turn_work(scenario: Scenario, groups: Sequence[AttentionGroup], *, prefill_sees_output: bool = True) -> TurnWork:
    """The prefills of the scenario's turns on one model, each on a hit and on a miss (model.md 2).

    A mix has no turns of its own: ask for those of its scenarios.
    """
    turns = turn_profile(scenario, prefill_sees_output=prefill_sees_output)
    return TurnWork(turns.context, turns.new_on_hit, turns.new_on_miss, *flops_of_turns(scenario, groups, turns))


def kv_is_linear(scenario: Scenario, groups: Sequence[AttentionGroup], tokens: Array, options: MappingOptions) -> bool:
    """Whether a session's KV at these contexts lies on the line through its mean and its peak, as it does unless a
    window is longer than some of them."""

    def held(context: Array) -> Array:
        shared, paged = scenario.shared_prefix_tokens, options.kv_layout == "paged"
        return np.asarray(session_bytes_on_rank(groups, context, 1.0, shared_tokens=shared, paged=paged))

    mean, peak = ends = np.array([scenario.mean_context_tokens, scenario.peak_context_tokens])
    at_mean, at_peak = held(ends)
    line = at_mean + (tokens - mean) * (at_peak - at_mean) / (peak - mean)
    return bool(np.allclose(line, held(tokens), rtol=1e-9))


def turn_differences(prepared: PreparedPoints, scenario: Scenario, published: pl.DataFrame) -> pl.DataFrame:
    """``ON_HIT`` and ``ON_MISS`` of the rows that the scenario takes, keyed by ``hardware`` and ``point_id``.

    ``published``: agent points of these rows, with the ``cache_hit_rate`` of each. ``carried_latency_ms`` is the turn
    latency that a row is carried to there: that of a direct row is its table's instead.
    """
    rates = published.select("hardware", "point_id", "cache_hit_rate")
    with np.errstate(all="ignore"):  # what a row does not say is NaN here, then NULL
        parts = [_of_group(group, prepared, scenario, rates) for group in prepared.groups]
    return pl.concat(parts)


def _of_group(group: RowGroup, prepared: PreparedPoints, scenario: Scenario, rates: pl.DataFrame) -> pl.DataFrame:
    groups = prepared.spec.attention
    chosen = group.take(group.choose(scenario).rows)
    turns = agent_turns(scenario, groups, prefill_sees_output=group.aggregated)
    work = turn_work(scenario, groups, prefill_sees_output=group.aggregated)
    keys = chosen.rows.select(["hardware", "point_id"])
    hit_rate = as_array(keys.join(rates, on=keys.columns, how="left", maintain_order="left")["cache_hit_rate"])
    columns = {name: np.full(len(chosen.rows), np.nan) for name in (*ON_HIT, *ON_MISS, "carried_latency_ms")}
    places = list(zip(ON_HIT, work.evaluated_on_hit, ON_MISS, work.evaluated_on_miss, strict=True))
    for carrier, rows in chosen.carriers:
        mean = turns.at(hit_rate[rows])
        for on_hit, hit, on_miss, miss in places:
            figures = carrier.figures_at(replace(mean, first=work.hit(hit), last=work.miss(miss)))
            columns["carried_latency_ms"][rows] = figures["turn_latency_ms"]
            columns[on_hit][rows] = figures["first_turn_latency_ms"] - figures["turn_latency_ms"]
            columns[on_miss][rows] = figures["last_turn_latency_ms"] - figures["turn_latency_ms"]
    return keys.with_columns(pl.Series(name, values, nan_to_null=True) for name, values in columns.items())
