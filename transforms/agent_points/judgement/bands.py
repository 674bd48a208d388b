"""How sure a calibrated point is: the range in which 80 % of evaluated errors lie (model.md 11)."""

from typing import Final

import numpy as np

from schemas.scenarios import Scenario
from transforms.agent_points.carriers.measured_rows import CalibratedRows
from transforms.agent_points.rows.columns import DEVIATIONS
from transforms.agent_points.rows.rows import Rows
from transforms.agent_points.service import Service
from transforms.calibration.engine import BAND_DEVIATIONS
from transforms.equations import closed_loop as loop
from transforms.numbers import Number

#: The wall itself is known to this standard deviation of its logarithm: memory over mean context against the brackets
#: of measured walls (``python -m tests.bench walls``).
WALL_DEVIATION: Final = 0.15
#: From this share of the wall on, a load may lie beyond it, where turns miss: latency is known no better than so.
NEAR_WALL: Final = 0.7
NEAR_WALL_DEVIATION: Final = 0.25


def add_deviations(rows: Rows, service: Service) -> Rows:
    """Adds ``DEVIATIONS`` to rows with a hit rate: standard deviations of logarithms; NaN where nothing was fitted."""
    calibrated = [
        (carrier, places) for carrier, places in service.group.carriers if isinstance(carrier, CalibratedRows)
    ]
    if not calibrated:
        return rows.with_figures(dict.fromkeys(DEVIATIONS, np.nan))
    latency, ttft = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    hit_rate = rows["cache_hit_rate"]
    for carrier, places in calibrated:
        rates = hit_rate[places] if isinstance(hit_rate, np.ndarray) else hit_rate
        latency[places], ttft[places] = carrier.deviations(service.turns.at(rates))
    latency[service.direct], ttft[service.direct] = np.nan, np.nan
    return rows.with_figures(dict(zip(DEVIATIONS, (latency, ttft), strict=True)))


def add_bands(rows: Rows, scenario: Scenario) -> Rows:
    """Adds ``*_low`` and ``*_high`` of TTFT, turn latency, tasks an hour per GPU and ``max_sessions``.

    The load is held: where turns take longer, the same sessions do fewer tasks. Near the wall, where a load may lie
    beyond it, the range is wider.
    """
    latency, ttft = (rows[name] for name in DEVIATIONS)
    near = np.asarray(rows["sessions"] >= NEAR_WALL * rows["max_sessions"])
    latency, ttft = (np.where(near, np.hypot(each, NEAR_WALL_DEVIATION), each) for each in (latency, ttft))
    known = np.where(np.isfinite(latency), 1.0, np.nan)
    figures = _around("ttft_ms", rows["ttft_ms"], ttft) | _around("turn_latency_ms", rows["turn_latency_ms"], latency)
    figures |= _around("max_sessions", rows["max_sessions"], WALL_DEVIATION * known)
    for end, other in (("low", "high"), ("high", "low")):
        turns = loop.turns_per_s(rows["sessions"], figures[f"turn_latency_ms_{other}"] / 1e3, scenario.think_time_s)
        figures[f"tasks_per_hour_per_gpu_{end}"] = 3600.0 * turns / scenario.turns / rows["gpus_per_replica"]
    return rows.with_figures(figures)


def _around(name: str, value: Number, deviation: Number) -> dict[str, Number]:
    factor = np.exp(BAND_DEVIATIONS * deviation)
    return {f"{name}_low": value / factor, f"{name}_high": value * factor}
