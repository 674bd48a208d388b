"""Hit rates at a fixed number of sessions where memory evicts: the loop of Step 5, warm and cold (model.md 7)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl
import polars.selectors as cs

from schemas.arrays import Array
from transforms.agent_points.agent import Agent
from transforms.agent_points.carry import Setting
from transforms.agent_points.memory.eviction import cache_figures, evicting_memory
from transforms.agent_points.memory.idle_kv import add_reload
from transforms.agent_points.rows.rows import Rows
from transforms.agent_points.service import NODE_FIGURES, NODES, node_name
from transforms.agent_points.sessions import close_loop
from transforms.cache import CacheOutcome, OverHitRates, evicting_model
from transforms.configurations import SCHEDULE_ID

#: Gives each curve, in their order, with its figures at ``_wanted`` sessions, from its rows.
Solve = Callable[[pl.DataFrame, pl.DataFrame], pl.DataFrame]


@dataclass(frozen=True)
class WarmAndCold:
    """Rows of curves at the hit rates that so many sessions end at: from a warm cache, and from an empty one."""

    warm: pl.DataFrame
    cold: pl.DataFrame


def settle_at_sessions(curves: pl.DataFrame, rows: pl.DataFrame, setting: Setting, solve: Solve) -> WarmAndCold:
    """The rows of each curve at the hit rate of its own ``_wanted`` sessions.

    R at these sessions is found at several hit rates, and what the memory keeps there at each; where both agree the
    loop closes.
    """
    most = evicting_model(setting.scenario)[1]
    rates = [most * share for share in NODES]
    solved = [
        solve(curves, rows_at(rows, np.full(rows.height, rate), np.zeros(rows.height), setting)) for rate in rates
    ]
    latency_s = np.array([at["turn_latency_ms"].to_numpy() / 1e3 for at in solved])
    over = OverHitRates(np.repeat(np.array(rates)[:, None], latency_s.shape[1], axis=1), latency_s)
    return WarmAndCold(
        *(
            _rows_of_outcome(rows, solved[-1], _outcome(solved[-1], over, setting, begin), setting)
            for begin in (1.0, 0.0)
        )
    )


def rows_at(rows: pl.DataFrame, hit_rate: Array, reloads: Array, setting: Setting) -> pl.DataFrame:
    """The rows' figures and sessions at other hit rates: straight between the ``NODES`` at which they are known."""
    agent = Agent.of(setting.scenario, setting.spec, aggregated=True)
    curve_rows = Rows(rows)
    most = evicting_model(agent.scenario)[1]
    rates = np.repeat(np.array([[most * share] for share in NODES]), rows.height, axis=1)
    figures = {}
    for name in NODE_FIGURES:
        values = np.array([curve_rows[node_name(name, number)] for number in range(len(NODES))])
        if name == "serving_requests_per_s":  # the time for a request is what hits shorten
            figures[name] = 1.0 / OverHitRates(rates, 1.0 / values).at(hit_rate)
        else:
            figures[name] = OverHitRates(rates, values).at(hit_rate)
    at = curve_rows.with_figures(figures, cache_hit_rate=hit_rate, cache_reload_fraction=reloads)
    return close_loop(add_reload(at, agent), agent.think_time_s, setting.options.closed_loop).to_frame()


def _outcome(solved: pl.DataFrame, latency_s: OverHitRates, setting: Setting, begin: float) -> CacheOutcome:
    """What each curve's sessions end at; ``solved``: one row a curve."""
    whole = CacheOutcome.nothing(solved.height)
    wanted = solved["_wanted"].to_numpy()
    for mode in ("agg", "disagg"):
        places = np.flatnonzero((solved["serving_mode"] == mode).to_numpy())
        if not len(places):
            continue
        agent = Agent.of(setting.scenario, setting.spec, aggregated=mode == "agg")
        memory = evicting_memory(Rows(solved[places]), agent, setting.options)
        # an idle replica asks for nothing: take one session in its place
        sessions = np.where(wanted > 0, wanted, 1.0)[places]
        of_mode = OverHitRates(latency_s.hit_rates[:, places], latency_s.values[:, places])
        outcome = memory.at_sessions(sessions, of_mode, begin)
        for name in CacheOutcome.__annotations__:
            getattr(whole, name)[places] = getattr(outcome, name)
    return whole


def _rows_of_outcome(rows: pl.DataFrame, solved: pl.DataFrame, outcome: CacheOutcome, setting: Setting) -> pl.DataFrame:
    """All rows of the curves at the outcome of each curve."""
    settled = solved.select(SCHEDULE_ID).with_columns(
        pl.Series(f"_settled_{name}", values, nan_to_null=True) for name, values in cache_figures(outcome).items()
    )
    joined = rows.join(settled, on=SCHEDULE_ID, how="left", maintain_order="left")
    hit_rate, reloads = (joined[f"_settled_{name}"].to_numpy() for name in ("cache_hit_rate", "cache_reload_fraction"))
    at = rows_at(joined, hit_rate, reloads, setting)
    return at.with_columns(prefix_kept_s="_settled_prefix_kept_s").drop(cs.starts_with("_settled_"))
