"""One row for each configuration, load and scenario, from tables of several workloads (MODEL 5.9)."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from schemas.scenarios import Scenario
from transforms.agent_points.rows import Flags, Indices, Rows
from transforms.cache import constant_hit_rate
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
    prefixes = (hit,) if scenario.cache_hit_rate == 1.0 else (hit, round(scenario.shared_prefix_tokens))
    return OwnWorkload(isl, round(scenario.output_tokens_per_turn), tuple(dict.fromkeys(prefixes)))


@dataclass(frozen=True)
class Choice:
    """What a scenario takes of some rows. ``miss``: for each direct row, the row that prices a miss."""

    rows: Flags
    direct: Flags
    miss: Indices


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
        workloads = frame.select(pl.struct(WORKLOAD).rank("dense").cast(pl.String).alias("_workload"), *WORKLOAD)
        rows = pl.concat([workloads, loads], how="horizontal")
        sets = rows.group_by(loads.columns).agg(_set=c("_workload").unique().sort().str.join(" "))
        rows = rows.join(sets, on=loads.columns, how="left", nulls_equal=True, maintain_order="left")
        offers = rows.select("_set", "_workload", *WORKLOAD).unique().with_row_index("_offer")
        rows = rows.join(offers.select("_set", "_workload", "_offer"), on=["_set", "_workload"], how="left",
                         maintain_order="left")  # fmt: skip
        return cls(offers, rows["_offer"].to_numpy().astype(np.intp), loads)

    def choose(self, scenario: Scenario, serving_mode: str, *, may_be_direct: bool) -> Choice:
        """The rows to carry, one workload for each configuration and load.

        A row at the agent's own effective workload is direct (MODEL 5.1) and comes first, if the scenario has no
        misses or another row prices them; else the workload whose context is nearest (as a ratio). Rows that are
        alike in all of this are all kept.
        """
        c = pl.col
        context = scenario.mean_context_tokens
        at_context = _near(c("isl_tokens"), context) & _near(c("osl_tokens"), scenario.output_tokens_per_turn)
        is_hit = (
            at_context
            & _near(c("isl_tokens") - c("prefix_tokens"), _new_on_hit(scenario, serving_mode))
            & may_be_direct
        )
        is_miss = at_context & _near(c("prefix_tokens"), scenario.shared_prefix_tokens)
        misses_nothing = constant_hit_rate(scenario) == 1.0
        is_priced = pl.lit(misses_nothing) | c("_is_miss").any().over("_set")
        ratio = (c("isl_tokens") + c("osl_tokens") / 2) / (context + scenario.output_tokens_per_turn / 2)
        offers = self.offers.with_columns(_is_hit=is_hit, _is_miss=is_miss).with_columns(
            _is_direct=c("_is_hit") & is_priced
        )
        distance = pl.when("_is_direct").then(-1.0).otherwise(ratio.log().abs().round(9))
        chosen = offers.with_columns(_distance=-distance)
        for name in ("_distance", *WORKLOAD):
            chosen = chosen.filter(c(name) == c(name).max().over("_set"))
        taken = offers["_offer"].is_in(chosen["_offer"].implode()).to_numpy()[self.offer]
        direct = taken & offers["_is_direct"].to_numpy()[self.offer]
        if misses_nothing:
            return Choice(taken, direct, np.flatnonzero(direct))
        if not direct.any():
            return Choice(taken, direct, np.empty(0, np.intp))
        rows = self.loads.with_row_index("_row")
        priced = rows.filter(offers["_is_miss"].to_numpy()[self.offer]).unique(self.loads.columns, keep="first",
                                                                               maintain_order=True)  # fmt: skip
        misses = rows.filter(direct).join(priced, on=self.loads.columns, how="left", nulls_equal=True,
                                          maintain_order="left")  # fmt: skip
        return Choice(taken, direct, misses["_row_right"].to_numpy().astype(np.intp))


def direct_figures(rows: Rows, misses: Rows, scenario: Scenario) -> dict[str, Number]:
    """Figures of direct rows: the table's own for hit and miss, mixed h : 1-h.

    Takes rows that were carried; what the first and last turn differ from the mean is kept.
    """
    hit = constant_hit_rate(scenario)

    def mixed(name: str) -> Number:
        return hit * rows[name] + (1 - hit) * misses[name]

    ttft, tpot = mixed("row_ttft_ms"), mixed("row_tpot_ms")
    latency = ttft + tpot * (scenario.output_tokens_per_turn - 1)
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


def _near(value: pl.Expr, target: float) -> pl.Expr:
    return (value - target).abs() <= TOKEN_TOLERANCE
