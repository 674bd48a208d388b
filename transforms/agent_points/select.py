"""One row for each configuration, load and scenario, from tables of several workloads (MODEL 5.9)."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from schemas.scenarios import Scenario
from transforms.agent_points.rows import Array, Flags, Indices, Rows
from transforms.cache import never_misses
from transforms.configurations import SCHEDULE_ID
from transforms.equations.context import turn_profile
from transforms.numbers import Number

#: Tables state whole tokens.
TOKEN_TOLERANCE = 0.5
WORKLOAD = ("isl_tokens", "osl_tokens", "prefix_tokens")


@dataclass(frozen=True)
class OwnWorkload:
    """The agent's own workload in whole tokens: the prompt, the output, what is cached on a hit and on a miss."""

    isl_tokens: int
    osl_tokens: int
    prefixes: tuple[int, ...]


def own_workload(scenario: Scenario, serving_mode: str) -> OwnWorkload:
    """What a tool must be asked so that rows of this serving mode are direct (MODEL 5.1); hit first."""
    isl = round(scenario.mean_context_tokens)
    hit = max(isl - round(_new_on_hit(scenario, serving_mode)), 0)
    prefixes = (hit,) if never_misses(scenario) else (hit, round(scenario.shared_prefix_tokens))
    return OwnWorkload(isl, round(scenario.output_tokens_per_turn), tuple(dict.fromkeys(prefixes)))


@dataclass(frozen=True)
class Choice:
    """What a scenario takes of some rows. ``miss``: the row that prices a miss of each direct row; None: no misses."""

    rows: Flags
    direct: Flags
    miss: Indices | None


@dataclass(frozen=True)
class Alternatives:
    """The workloads between which a scenario chooses, for rows of one serving mode and source.

    Loads whose rows offer the same workloads choose alike: ``offers`` has one row for each such set (``_set``) and
    workload of it, ``offer`` the place of each row's own there. ``loads`` has each row's configuration and load.
    """

    offers: pl.DataFrame
    offer: Indices
    loads: pl.DataFrame

    @classmethod
    def of_rows(cls, frame: pl.DataFrame) -> "Alternatives":
        c = pl.col
        loads = frame.select(SCHEDULE_ID, "batch_per_rank")
        one = frame.select(WORKLOAD).unique()
        if one.height == 1:
            return cls(one.with_columns(_set=pl.lit("0"), _offer=0), np.zeros(frame.height, np.intp), loads)
        # a bit for each workload; of more than a word of them, a text
        bits = one.height <= 62
        marks = [1 << number if bits else str(number) for number in range(one.height)]
        named = one.sort(WORKLOAD).with_columns(pl.Series("_workload", marks))
        rows = frame.select(SCHEDULE_ID, "batch_per_rank", *WORKLOAD).join(
            named, on=WORKLOAD, how="left", maintain_order="left"
        )
        offered = c("_workload").bitwise_or() if bits else c("_workload").unique().sort().str.join(" ")
        sets = rows.group_by(loads.columns).agg(_set=offered)
        rows = rows.join(sets, on=loads.columns, how="left", nulls_equal=True, maintain_order="left")
        offers = rows.select("_set", "_workload", *WORKLOAD).unique().with_row_index("_offer")
        rows = rows.join(offers.select("_set", "_workload", "_offer"), on=["_set", "_workload"], how="left",
                         maintain_order="left")  # fmt: skip
        return cls(offers, rows["_offer"].to_numpy().astype(np.intp), loads)

    def choose(self, scenario: Scenario, serving_mode: str, *, may_be_direct: bool, misses_nothing: bool) -> Choice:
        """The rows to carry, one workload for each configuration and load.

        A row at the agent's own effective workload is direct (MODEL 5.1) and comes first, if the scenario has no
        misses or another row prices them; else the workload whose context is nearest (as a ratio). Rows that are
        alike in all of this are all kept.
        """
        of_set = self.offers["_set"].rank("dense").to_numpy() - 1
        isl, osl, prefix = (self.offers[name].to_numpy() for name in WORKLOAD)
        context, output = scenario.mean_context_tokens, scenario.output_tokens_per_turn

        def most_in_set(values: Array) -> Array:
            """The highest value of each offer's set."""
            found = np.full(int(of_set.max()) + 1, -np.inf)
            np.maximum.at(found, of_set, values)
            return np.asarray(found[of_set])

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
        rows = self.loads.with_row_index("_row")
        priced = rows.filter(is_miss[self.offer]).unique(self.loads.columns, keep="first",
                                                                               maintain_order=True)  # fmt: skip
        misses = rows.filter(direct).join(priced, on=self.loads.columns, how="left", nulls_equal=True,
                                          maintain_order="left")  # fmt: skip
        return Choice(taken, direct, misses["_row_right"].to_numpy().astype(np.intp))


def direct_figures(rows: Rows, misses: Rows, output_tokens: float, hit_rate: Number) -> dict[str, Number]:
    """Figures of direct rows: the table's own for hit and miss, mixed h : 1-h.

    Takes rows that were carried; what the first and last turn differ from the mean is kept.
    """
    hit = hit_rate

    def mixed(name: str) -> Number:
        return hit * rows[name] + (1 - hit) * misses[name]

    ttft, tpot = mixed("row_ttft_ms"), mixed("row_tpot_ms")
    latency = ttft + tpot * (output_tokens - 1)
    shift = latency - rows["turn_latency_ms"]
    seconds_a_request = hit / rows["row_requests_per_s"] + (1 - hit) / misses["row_requests_per_s"]
    return {
        "ttft_ms": ttft,
        "tpot_ms": tpot,
        "turn_latency_ms": latency,
        "first_turn_latency_ms": rows["first_turn_latency_ms"] + shift,
        "last_turn_latency_ms": rows["last_turn_latency_ms"] + shift,
        "serving_requests_per_s": 1 / seconds_a_request,
    }


def _new_on_hit(scenario: Scenario, serving_mode: str) -> float:
    """Tokens that a turn prefills on a hit, mean over the turns. A disaggregated pool computes the last output too."""
    turns = turn_profile(scenario, prefill_sees_output=serving_mode == "agg")
    return turns.mean(turns.new_on_hit)


def _near(value: Array, target: float) -> Flags:
    return np.asarray(np.abs(value - target) <= TOKEN_TOLERANCE)
