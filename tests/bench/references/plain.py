"""The figures as one would write them: of columns in pandas, and of one row in floats."""

import bisect
import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pandas

from tests.bench.references.figures import RESERVE, TOLERANCE, Constants, Figures, Inputs
from tests.bench.references.plain_turns import Operations, turns_by_ratio, turns_from_steps
from tests.bench.references.spread import spread_of_columns, spread_of_point, tails_of_columns
from transforms.agent_points.judgement import expected_errors as evaluated
from transforms.agent_points.judgement.evidence import workload_is_near
from transforms.agent_points.judgement.expected_errors import RANGES
from transforms.agent_points.rows.rows import code
from transforms.equations import kv_memory as kv
from transforms.equations.transfer import KV_READ_EFFICIENCY as READS
from transforms.serving_points.peaks import PEAK_TOLERANCE
from transforms.tails.replica import LEAST_SHARE, SHARES


class InPandas:
    """The figures of all rows of a frame, column by column."""

    def __init__(self, inputs: Inputs) -> None:
        self._inputs, self._frame = inputs, pandas.DataFrame(inputs.x)

    def at(self, constants: Constants) -> pandas.DataFrame:
        """``COMPARED`` and ``FLAGS`` at a scenario."""
        vectors = Operations(
            np.maximum, np.minimum, np.floor, np.ceil, np.sqrt, np.log2, np.exp, pandas.Series.where, self._curve,
            spread_of_columns,
        )  # fmt: skip
        return pandas.DataFrame(_figures(self._frame, constants, self._inputs, vectors))

    def _curve(self, tokens: pandas.Series, deployment: pandas.Series) -> pandas.Series:
        curves, row = self._inputs.curves, deployment.to_numpy().astype(np.intp)
        assert curves is not None
        piece = (curves.ends_at_tokens[row] <= tokens.to_numpy()[:, None]).sum(axis=1)
        ms: pandas.Series = curves.intercept_ms[row, piece] + curves.slope_ms[row, piece] * tokens
        return ms


class OneByOne:
    """The figures of one row at a time."""

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs

    def of_point(self, x: Mapping[str, float], constants: Constants) -> Figures:
        """``COMPARED`` and ``FLAGS`` of one row of the inputs at a scenario."""
        return _figures(x, constants, self._inputs, self._numbers)

    @cached_property
    def _numbers(self) -> Operations:
        return Operations(
            max, min, lambda v: float(math.floor(v)), lambda v: float(math.ceil(v)), math.sqrt, math.log2, math.exp,
            lambda v, is_known, other: v if is_known else other, self._curve, spread_of_point,
        )  # fmt: skip

    def _curve(self, tokens: float, deployment: float) -> float:
        ends, intercept, slope = self._pieces[int(deployment)]
        piece = bisect.bisect_right(ends, tokens)
        return float(intercept[piece] + slope[piece] * tokens)

    @cached_property
    def _pieces(self) -> list[tuple[list[float], list[float], list[float]]]:
        curves = self._inputs.curves
        assert curves is not None
        each = (curves.ends_at_tokens, curves.intercept_ms, curves.slope_ms)
        return list(zip(*(values.tolist() for values in each), strict=True))


def _figures(x: Any, constants: Constants, inputs: Inputs, op: Operations) -> Figures:
    scenario, now = constants.scenario, constants.turns.at(constants.hit_rate)
    output, think_s = scenario.output_tokens_per_turn, scenario.think_time_s
    ranks, gpus, kv_a_token = x["dp"], x["gpus_per_replica"], x["kv_bytes_per_token"]
    turns = turns_by_ratio if inputs.method == "ratio" else turns_from_steps
    turn, ms_a_token, ms_a_flop = turns(x, constants, inputs.spec, op)
    tpot, latency, rate = (turn[name] for name in ("tpot_ms", "turn_latency_ms", "serving_requests_per_s"))
    latency_s = latency / 1e3
    rho = latency_s / (latency_s + think_s)
    in_flight = rate * latency_s / ranks
    sessions = ranks * op.maximum(in_flight, 1.0 + (in_flight - 1.0) / rho)
    turns_per_s = sessions / (latency_s + think_s)
    per_gpu = turns_per_s / gpus
    tasks, tokens = per_gpu / scenario.turns, per_gpu * output
    nodes = constants.nodes
    means = nodes.turns.means
    rest = latency - ms_a_token * means[1] - ms_a_flop * means[2] - tpot * means[3]
    forms = [rest, ms_a_token, ms_a_flop, tpot]
    context = scenario.mean_context_tokens + output / 2
    read = 1e3 * x["kv_read_bytes_per_token"] / (x["hbm_bandwidth_bytes_per_s"] * READS)
    met = [ms_a_token + 0.0 * rest, ms_a_flop + 0.0 * rest, tpot, sessions / ranks, latency, rho]
    met.append((output - 1.0) * context * read)
    wait, in_a_task, (*slowed, least_of_token), of_first = tails_of_columns(met, nodes, scenario.turns)
    least, shares = LEAST_SHARE * latency, tuple(SHARES.values())
    of_turns = [op.maximum(each, least) for each in op.spread(nodes.turns, [*forms, *wait], shares)]
    of_tasks = op.spread(nodes.tasks, [*forms, 0.0 * rest + 1e3, *in_a_task], shares)
    speeds = [1e3 / each for each in op.spread(nodes.per_token, [*forms, *wait], shares)]
    of_tokens = [op.maximum(each, least_of_token) for each in op.spread(nodes.output_token, [tpot, *slowed], shares)]
    weights, usable = x["_non_expert_bytes"] * x["cp"], x["hbm_bytes"] * (1.0 - RESERVE)
    available = gpus / ranks * usable - weights
    shared = scenario.shared_prefix_tokens
    at_mean, at_peak = (
        kv_a_token * (context - shared) for context in (scenario.mean_context_tokens, scenario.peak_context_tokens)
    )
    left = op.maximum(op.maximum(available, 0.0) - kv_a_token * shared, 0.0)
    fit = ranks * op.floor(left / at_mean)
    spread = kv.Z_P95 * constants.context_sd * kv_a_token
    root = (op.sqrt(spread * spread + 4.0 * at_mean * left) - spread) / (2.0 * at_mean)
    least = 2.0 ** (op.floor(op.log2(op.maximum(weights / usable, 0.5))) + 1.0)
    errors = np.array([evaluated.EXPECTED_ERRORS[inputs.method, "agg"][label] for label in RANGES])
    reason = 0 * fit
    for text, stays in (
        ("kv_capacity", sessions <= fit * (1 + TOLERANCE)),
        ("above_peak_flops", per_gpu * constants.flops_per_request <= x["fastest_flops_per_s"] * (1 + PEAK_TOLERANCE)),
        ("table_memory_exceeds_gpu", (x["memory_bytes_per_gpu"] > x["hbm_bytes"]) ^ True),
        ("context_too_long", 0 * fit + scenario.peak_context_tokens <= constants.longest),
        ("weights_do_not_fit", available > 0),
    ):
        reason = op.where(reason, stays, code("infeasible_reason", text))
    is_near = workload_is_near(scenario, now.mean.new_tokens)
    usd = x["usd_per_gpu_hour"] / 3600.0
    return {
        **turn,
        "sessions": sessions,
        "activity_fraction": rho,
        "in_flight_requests": sessions * rho,
        "turns_per_s": turns_per_s,
        "task_time_s": scenario.turns * (latency_s + think_s),
        "turns_per_s_per_gpu": per_gpu,
        "tasks_per_s_per_gpu": tasks,
        "tasks_per_hour_per_gpu": 3600 * tasks,
        "tasks_per_s_per_gpu_step9": rate / scenario.turns * rho / gpus,
        "output_tokens_per_s_per_gpu": tokens,
        "decode_tokens_per_s_per_user": 1e3 / tpot,
        "e2e_tokens_per_s_per_user": output / latency_s,
        "sessions_per_gpu": sessions / gpus,
        **{f"ttft_{name}_ms": values for name, values in zip(SHARES, map(op.minimum, of_first, of_turns), strict=True)},
        **{f"turn_latency_{name}_ms": values for name, values in zip(SHARES, of_turns, strict=True)},
        **{f"task_time_{name}_s": values / 1e3 for name, values in zip(SHARES, of_tasks, strict=True)},
        **{f"e2e_tokens_per_s_per_user_{name}": values for name, values in zip(SHARES, speeds, strict=True)},
        **{f"tpot_{name}_ms": values for name, values in zip(SHARES, of_tokens, strict=True)},
        "kv_bytes_per_session_mean": at_mean,
        "kv_bytes_per_session_peak": at_peak,
        "kv_bytes_available": ranks * available,
        "kv_bytes_per_gpu": (sessions * at_mean + ranks * kv_a_token * shared) / gpus,
        "max_sessions_mean_context": fit,
        "max_sessions_p95_context": ranks * op.floor(root * root + 1e-9),
        "max_sessions_peak_context": ranks * op.floor(left / at_peak),
        "max_sessions": fit,
        "max_parked_sessions": fit,
        "least_tp_that_fits": op.where(least, available <= 0, math.nan),
        "kv_utilization_fraction": op.where(sessions / op.maximum(fit, 1.0), fit > 0, math.nan),
        "expected_error_fraction": errors[np.asarray(x["_batch_range"], np.intp)],
        "usd_per_task": usd / tasks,
        "usd_per_million_output_tokens": 1e6 * usd / tokens,
        "feasible": reason == 0,
        "extrapolated": ((x["_is_evaluated"] > 0) & is_near) ^ True,
        "infeasible_reason": reason,
    }
