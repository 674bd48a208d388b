"""One row for each configuration, load and scenario, from tables of several workloads (model.md 5.9)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.arrays import Array, Flags, Indices
from schemas.scenarios import Scenario
from transforms.agent_points.rows.rows import Rows
from transforms.agent_points.selection.twins import Twins
from transforms.cache import never_misses
from transforms.configurations import SCHEDULE_ID
from transforms.equations.context import turn_profile
from transforms.numbers import Number, begins_run

#: Tables state whole tokens.
TOKEN_TOLERANCE = 0.5
#: Workloads whose sets are numbers.
_BITS = 62
#: Where more pairs a row could be, those that occur are found by sorting.
_PAIRS_A_ROW = 8
WORKLOAD = ("isl_tokens", "osl_tokens", "prefix_tokens")


@dataclass(frozen=True)
class OwnWorkload:
    """The agent's own workload in whole tokens: the prompt, the output, what is cached on a hit and on a miss."""

    isl_tokens: int
    osl_tokens: int
    prefixes: tuple[int, ...]


def own_workload(scenario: Scenario, serving_mode: str) -> OwnWorkload:
    """What a tool must be asked so that rows of this serving mode are direct (model.md 5.1); hit first."""
    isl = round(scenario.mean_context_tokens)
    hit = max(isl - round(_new_on_hit(scenario, serving_mode)), 0)
    prefixes = (hit,) if never_misses(scenario) else (hit, round(scenario.shared_prefix_tokens))
    return OwnWorkload(isl, round(scenario.output_tokens_per_turn), tuple(dict.fromkeys(prefixes)))


@dataclass(frozen=True)
class Choice:
    """What a scenario takes of some rows. ``miss``: the row that prices a miss of each direct row, the row itself where
    a miss is its own workload too; None: no misses."""

    rows: Flags
    direct: Flags
    miss: Indices | None


@dataclass(frozen=True)
class Alternatives:
    """The workloads between which a scenario chooses, for rows of one serving mode and source.

    Loads whose rows offer the same workloads choose alike: ``offers`` has one row for each such set (``_set``) and
    workload of it, ``offer`` the place of each row's own there. ``load`` numbers each row's schedule and load, and
    ``twins`` finds the row that belongs to one at another workload of that load.
    """

    offers: pl.DataFrame
    offer: Indices
    load: Indices
    twins: Twins

    @classmethod
    def of_rows(cls, rows: Rows) -> "Alternatives":
        """Of rows in the order of their curves."""
        schedule, batch = rows[SCHEDULE_ID].astype(np.intp), np.nan_to_num(rows["batch_per_rank"], nan=-1.0)
        load = _pairs(schedule, _numbered(batch))
        one, number = _workloads(rows)
        twins = Twins(rows, load)
        if one.height == 1:
            return cls(one.with_columns(_set=0), np.zeros(len(rows), np.intp), load, twins)
        of_load = _sets(load, number, one.height)
        offer = _pairs(of_load[load], number)
        some_row = np.empty(offer.max() + 1, np.intp)
        some_row[offer] = np.arange(len(offer))
        offers = one[number[some_row]].with_columns(_set=pl.Series(of_load[load[some_row]]))
        return cls(offers, offer, load, twins)

    def choose(self, scenario: Scenario, serving_mode: str, *, may_be_direct: bool, misses_nothing: bool) -> Choice:
        """The rows to carry, one workload for each configuration and load.

        A row at the agent's own effective workload is direct (model.md 5.1) and comes first, if the scenario has no
        misses or another row prices them; else the workload whose context is nearest (as a ratio). Rows that are
        alike in all of this are all kept.

        An agent decodes at 18,262 tokens on average. Of tables at 4000/1000 (4,500 tokens) and 16000/1000 (16,500) the
        second is taken: a ratio of 1.1 against 4.1. One at 18198/128 with 17,570 tokens cached is the agent's own hit.
        """
        of_set = self.offers["_set"].to_numpy()
        isl, osl, prefix = (self.offers[name].to_numpy() for name in WORKLOAD)
        context, output = scenario.mean_context_tokens, scenario.output_tokens_per_turn

        def most_in_set(values: Array) -> Array:
            """The highest value of each offer's set."""
            highest = np.full(int(of_set.max()) + 1, -np.inf)
            np.maximum.at(highest, of_set, values)
            return np.asarray(highest[of_set])

        at_context = _near(isl, context) & _near(osl, output)
        is_miss = at_context & _near(prefix, scenario.shared_prefix_tokens)
        is_priced = misses_nothing | (most_in_set(is_miss.astype(np.float64)) > 0)
        is_hit = at_context & _near(isl - prefix, _new_on_hit(scenario, serving_mode))
        is_direct = is_hit & is_priced & may_be_direct
        distance = np.abs(np.log((isl + osl / 2) / (context + output / 2))).round(9)
        chosen = np.ones(len(isl), np.bool_)
        for preference in (-np.where(is_direct, -1.0, distance), isl, osl, prefix):
            left = np.where(chosen, preference, -np.inf)
            chosen &= left == most_in_set(left)
        taken, direct = chosen[self.offer], (chosen & is_direct)[self.offer]
        if misses_nothing:
            return Choice(taken, direct, None)
        if not direct.any():
            return Choice(taken, direct, np.empty(0, np.intp))
        # a row whose own workload is that of a miss too prices its own misses
        direct_rows, prices = np.flatnonzero(direct), is_miss[self.offer]
        miss, others = direct_rows.copy(), ~prices[direct_rows]
        if others.any():
            miss[others] = self.twins.find(direct_rows[others], np.flatnonzero(prices))
        return Choice(taken, direct, miss)


def direct_figures(rows: Rows, misses: Rows, output_tokens: float, hit_rate: Number) -> dict[str, Number]:
    """Figures of direct rows: the table's own for hit and miss, mixed h : 1-h; where both are one, that one.

    Takes rows that were carried; what the first and last turn differ from the mean is kept.
    """

    def mixed(hit: Number, miss: Number) -> Number:
        return np.where(hit == miss, hit, hit_rate * hit + (1 - hit_rate) * miss)

    ttft, tpot = (mixed(rows[name], misses[name]) for name in ("row_ttft_ms", "row_tpot_ms"))
    latency = ttft + tpot * (output_tokens - 1)
    shift = latency - rows["turn_latency_ms"]
    rate = "row_requests_per_s"
    seconds_a_request = mixed(1 / rows[rate], 1 / misses[rate])
    return {
        "ttft_ms": ttft,
        "tpot_ms": tpot,
        "turn_latency_ms": latency,
        "first_turn_latency_ms": rows["first_turn_latency_ms"] + shift,
        "last_turn_latency_ms": rows["last_turn_latency_ms"] + shift,
        "serving_requests_per_s": 1 / seconds_a_request,
    }


def _workloads(rows: Rows) -> tuple[pl.DataFrame, Indices]:
    """The workloads that occur, in order, and the place of each row's among them."""
    columns = {name: rows[name] for name in WORKLOAD}
    # rows of one curve stand together, and mostly are of one workload
    starts = np.flatnonzero(begins_run(*columns.values()))
    of_run = pl.DataFrame({name: values[starts] for name, values in columns.items()})
    one = of_run.unique().sort(WORKLOAD)
    number = of_run.join(one.with_row_index("_workload"), on=WORKLOAD, how="left", maintain_order="left")["_workload"]
    return one, np.repeat(number.to_numpy().astype(np.intp), np.diff(np.r_[starts, len(rows)]))


def _numbered(values: npt.NDArray[Any]) -> Indices:
    """A number from 0 on for each value, the same for the same."""
    return np.asarray(np.searchsorted(pl.Series(values).unique().sort().to_numpy(), values))


def _pairs(one: Indices, other: Indices) -> Indices:
    """A number from 0 on for each pair that occurs, one of each array in a pair; they rise with the pairs."""
    width = int(other.max()) + 1
    pair = one.astype(np.intp) * width + other
    if pair.max() < _PAIRS_A_ROW * len(pair):
        there = np.bincount(pair) > 0
        return np.asarray((np.cumsum(there) - 1)[pair])
    return np.asarray(np.unique(pair, return_inverse=True)[1])


def _sets(load: Indices, workload: Indices, workloads: int) -> Indices:
    """A number from 0 on for each set of workloads that some load's rows have, of each load."""
    if workloads <= _BITS:
        sets = np.zeros(load.max() + 1, np.int64)
        np.bitwise_or.at(sets, load, np.int64(1) << workload)
        return _numbered(sets)
    named = pl.DataFrame({"load": load, "workload": workload}).unique().sort("load", "workload")
    texts = named.group_by("load", maintain_order=True).agg(pl.col("workload").cast(pl.String).str.join(" "))
    return texts["workload"].rank("dense").to_numpy().astype(np.intp) - 1


def _new_on_hit(scenario: Scenario, serving_mode: str) -> float:
    """Tokens that a turn prefills on a hit, mean over the turns. A disaggregated pool computes the last output too."""
    turns = turn_profile(scenario, prefill_sees_output=serving_mode == "agg")
    return turns.mean(turns.new_on_hit)


def _near(value: Array, target: float) -> Flags:
    return np.asarray(np.abs(value - target) <= TOKEN_TOLERANCE)
