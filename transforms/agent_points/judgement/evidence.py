"""How sure an agent point is: the error that the evaluation found for its like, whether it lies beyond it, and of a
calibrated point the range in which 80 % of evaluated errors lie (model.md 11)."""

from typing import Final

import numpy as np

from schemas.scenarios import Scenario
from transforms.agent_points.agent import Agent
from transforms.agent_points.carriers.measured_rows import CalibratedRows
from transforms.agent_points.judgement import expected_errors as evaluated
from transforms.agent_points.rows.columns import BEYOND_MEASURED, DEVIATIONS
from transforms.agent_points.rows.lookups import Deployed
from transforms.agent_points.rows.rows import LABELS, Rows, code
from transforms.agent_points.service import Service
from transforms.calibration.engine import BAND_DEVIATIONS
from transforms.equations import closed_loop as loop
from transforms.numbers import Number

#: A workload is beyond the evidence where it leaves what was evaluated by more than this factor.
BEYOND = 2.0
#: Mean of the absolute value of a normal distribution over its standard deviation.
MEAN_OVER_DEVIATION: Final = 0.798


def add_evidence(rows: Rows, service: Service) -> Rows:
    """Adds ``expected_error_fraction``, ``extrapolated`` and ``DEVIATIONS`` to the rows that are served.

    The error is the mapping's, not the table's: 0 for a direct row, NULL where its method was not evaluated. A
    point is extrapolated where nothing like it was evaluated: another source or engine than those of the
    reference sets, or prefills, contexts or outputs beyond twice, or below half of, what the reference turns span.
    A roofline was evaluated by its preset and the kind of model, the transfer of latent attention (MLA) by itself.
    """
    agent, mode, method = service.agent, service.group.mode, rows["transfer_method"]
    by_method = np.full((len(LABELS["transfer_method"]), len(evaluated.RANGES)), np.nan)
    kinds = {"roofline": f"roofline {service.group.roofline} {'dense' if agent.spec.moe is None else 'experts'}"}
    if mode == "agg" and any(group.kind == "mla" for group in agent.spec.attention):
        kinds["transfer"] = "transfer latent"
    for name in ("transfer", "ratio", "roofline"):
        errors = evaluated.EXPECTED_ERRORS.get((kinds.get(name, name), mode))
        if errors is not None:
            by_method[code("transfer_method", name)] = [errors[label] for label in evaluated.RANGES]
    by_method[code("transfer_method", "direct")] = 0.0
    is_direct = method == code("transfer_method", "direct")
    as_evaluated = Deployed(rows).is_evaluated & workload_is_near(agent.scenario, rows["prefill_tokens_per_turn"])
    errors = by_method[method, rows["_batch_range"].astype(np.intp)]
    deviations = _deviations(rows, service)
    is_calibrated = method == code("transfer_method", "calibrated")
    beyond = rows.select(["unmeasured_load"]).to_series().eq_missing(BEYOND_MEASURED).to_numpy()
    return rows.with_figures(
        deviations,
        expected_error_fraction=np.where(is_calibrated, MEAN_OVER_DEVIATION * deviations[DEVIATIONS[0]], errors),
        extrapolated=np.where(is_calibrated, beyond, ~(as_evaluated | is_direct)),
    )


def workload_is_near(scenario: Scenario, prefill_tokens: Number) -> Number:
    """Whether turns are like the reference turns."""
    least_new, most_new = evaluated.EVALUATED_NEW_TOKENS
    least_out, most_out = evaluated.EVALUATED_OUTPUT_TOKENS
    out = scenario.output_tokens_per_turn
    near = (
        scenario.mean_context_tokens + out / 2 <= BEYOND * evaluated.EVALUATED_CONTEXT_TOKENS
        and least_out / BEYOND <= out <= BEYOND * most_out
    )
    return near & (least_new / BEYOND <= prefill_tokens) & (prefill_tokens <= BEYOND * most_new)


#: The wall itself is known to this standard deviation of its logarithm: memory over mean context against the brackets
#: of measured walls (``python -m tests.bench walls``).
WALL_DEVIATION: Final = 0.15
#: From this share of the wall on, a load may lie beyond it, where turns miss: latency is known no better than so.
NEAR_WALL: Final = 0.7
NEAR_WALL_DEVIATION: Final = 0.25


def _deviations(rows: Rows, service: Service) -> dict[str, Number]:
    """``DEVIATIONS`` of rows with a hit rate: standard deviations of logarithms; NaN where nothing was fitted."""
    calibrated = [
        (carrier, places) for carrier, places in service.group.carriers if isinstance(carrier, CalibratedRows)
    ]
    if not calibrated:
        return dict.fromkeys(DEVIATIONS, np.nan)
    latency, ttft = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    hit_rate = rows["cache_hit_rate"]
    for carrier, places in calibrated:
        rates = hit_rate[places] if isinstance(hit_rate, np.ndarray) else hit_rate
        latency[places], ttft[places] = carrier.deviations(service.agent.prefills.at(rates))
    latency[service.direct], ttft[service.direct] = np.nan, np.nan
    return dict(zip(DEVIATIONS, (latency, ttft), strict=True))


def add_bands(rows: Rows, agent: Agent) -> Rows:
    """Adds ``*_low`` and ``*_high`` of TTFT, turn latency, tasks an hour per GPU and ``max_sessions``.

    The load is held: where turns take longer, the same sessions do fewer tasks. Near the wall, where a load may lie
    beyond it, the range is wider.
    """
    latency, ttft = (rows[name] for name in DEVIATIONS)
    near = np.asarray(rows["sessions"] >= NEAR_WALL * rows["max_sessions"])
    latency, ttft = (np.where(near, np.hypot(each, NEAR_WALL_DEVIATION), each) for each in (latency, ttft))
    only_calibrated = np.where(np.isfinite(latency), 1.0, np.nan)
    figures = _around("ttft_ms", rows["ttft_ms"], ttft) | _around("turn_latency_ms", rows["turn_latency_ms"], latency)
    figures |= _around("max_sessions", rows["max_sessions"], WALL_DEVIATION * only_calibrated)
    for end, other in (("low", "high"), ("high", "low")):
        turns = loop.turns_per_s(rows["sessions"], figures[f"turn_latency_ms_{other}"] / 1e3, agent.think_time_s)
        figures[f"tasks_per_hour_per_gpu_{end}"] = 3600.0 * turns / agent.turns / rows["gpus_per_replica"]
    return rows.with_figures(figures)


def _around(name: str, value: Number, deviation: Number) -> dict[str, Number]:
    factor = np.exp(BAND_DEVIATIONS * deviation)
    return {f"{name}_low": value / factor, f"{name}_high": value * factor}
