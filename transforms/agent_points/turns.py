"""Single turns of a task: how much longer each takes than the mean turn, on a hit and on a miss (Steps 4 and 5).

All requests of a batch share its steps, so that TPOT and the others' prefills stay at their means; only a turn's own
prefill differs from turn to turn (MODEL 5.3). A task may have hundreds of turns: rows are evaluated at a few of them,
and what lies between follows from the work of each turn (``TurnWork``), as a prefill's time is linear in the FLOPs of
its attention and, between the turns evaluated, in its tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl

from schemas.models import AttentionGroup
from schemas.options import MappingOptions
from schemas.scenarios import Scenario
from transforms.agent_points.prepare import Part, PreparedPoints
from transforms.agent_points.rows import Array
from transforms.agent_points.workload import Prefill, agent_workload
from transforms.equations.context import turn_profile
from transforms.equations.kv_memory import attention_flops, session_bytes_on_rank

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
    """The prefills of the scenario's turns on one model, each on a hit and on a miss (MODEL section 2)."""
    turns = turn_profile(scenario, prefill_sees_output=prefill_sees_output)

    def flops(new: Array) -> Array:
        return np.asarray(attention_flops(groups, turns.context - new, new))

    return TurnWork(
        turns.context, turns.new_on_hit, turns.new_on_miss, flops(turns.new_on_hit), flops(turns.new_on_miss)
    )


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


def turn_differences(prepared: PreparedPoints, scenario: Scenario) -> pl.DataFrame:
    """``ON_HIT`` and ``ON_MISS`` of every row that the scenario takes, keyed by ``hardware`` and ``point_id``.

    ``carried_latency_ms`` is the turn latency that the row is carried to: a direct row is published with its table's.
    """
    with np.errstate(all="ignore"):  # what a row does not say is NaN here, then NULL
        parts = [_of_part(part, prepared, scenario) for part in prepared.parts]
    return pl.concat(parts)


def _of_part(part: Part, prepared: PreparedPoints, scenario: Scenario) -> pl.DataFrame:
    groups = prepared.spec.attention
    chosen = part.take(part.choose(scenario).rows)
    mean = agent_workload(scenario, groups, prefill_sees_output=part.aggregated)
    work = turn_work(scenario, groups, prefill_sees_output=part.aggregated)
    columns = {name: np.full(len(chosen.rows), np.nan) for name in (*ON_HIT, *ON_MISS, "carried_latency_ms")}
    places = zip(ON_HIT, work.evaluated_on_hit, ON_MISS, work.evaluated_on_miss, strict=True)
    for on_hit, hit, on_miss, miss in places:
        workload = replace(mean, first=work.hit(hit), last=work.miss(miss))
        for carrier, rows in chosen.carriers:
            figures = carrier.carry(workload)
            columns["carried_latency_ms"][rows] = figures["turn_latency_ms"]
            columns[on_hit][rows] = figures["first_turn_latency_ms"] - figures["turn_latency_ms"]
            columns[on_miss][rows] = figures["last_turn_latency_ms"] - figures["turn_latency_ms"]
    return chosen.rows.frame.select("hardware", "point_id").with_columns(
        pl.Series(name, values, nan_to_null=True) for name, values in columns.items()
    )
