"""All rows at a scenario in one pass over blocks that stay in the processor's cache, in place."""

from typing import Final

import numpy as np

from tests.bench.references.figures import COMPARED, RESERVE, TOLERANCE, Constants, Figures, Inputs
from tests.bench.references.fused_turns import FusedTurns, fused_turns
from tests.bench.references.spread import FusedSpread
from transforms.agent_points.judgement import expected_errors as evaluated
from transforms.agent_points.judgement.evidence import workload_is_near
from transforms.agent_points.judgement.expected_errors import RANGES
from transforms.agent_points.rows.rows import code
from transforms.equations import kv_memory as kv
from transforms.equations.transfer import KV_READ_EFFICIENCY as READS
from transforms.serving_points.peaks import PEAK_TOLERANCE

#: Rows at a time.
BLOCK: Final = 4_096


class FusedPass:
    """The figures of many rows at any scenario."""

    def __init__(self, inputs: Inputs) -> None:
        """What no scenario changes."""
        x = inputs.x
        ranks, gpus, weights = x["dp"], x["gpus_per_replica"], x["_non_expert_bytes"] * x["cp"]
        usable = x["hbm_bytes"] * (1.0 - RESERVE)
        available = gpus / ranks * usable - weights
        fits = available > 0
        too_much = x["memory_bytes_per_gpu"] > x["hbm_bytes"]
        ratio = np.maximum(weights / usable, 0.5)
        errors = np.array([evaluated.EXPECTED_ERRORS[inputs.method, "agg"][label] for label in RANGES])
        reason = np.where(too_much, np.int8(code("infeasible_reason", "table_memory_exceeds_gpu")), np.int8(0))
        self._turns = fused_turns(inputs)
        self._of_rows = {
            **self._turns.of_rows,
            "ranks": ranks,
            "per_gpu": 1.0 / gpus,
            "kv_a_token": x["kv_bytes_per_token"],
            "decode_ms_a_token": 1e3 * x["kv_read_bytes_per_token"] / (x["hbm_bandwidth_bytes_per_s"] * READS),
            "left": np.maximum(available, 0.0),
            "kv_bytes_available": ranks * available,
            "least_tp_that_fits": np.where(fits, np.nan, 2.0 ** (np.floor(np.log2(ratio)) + 1.0)),
            "no_room": np.where(fits, reason, np.int8(code("infeasible_reason", "weights_do_not_fit"))),
            "fastest": x["fastest_flops_per_s"] * (1 + PEAK_TOLERANCE),
            "usd_a_second": x["usd_per_gpu_hour"] / 3600.0,
            "expected_error_fraction": errors[x["_batch_range"].astype(np.intp)],
            "is_evaluated": x["_is_evaluated"] > 0,
        }
        self._rows = len(ranks)

    def at(self, constants: Constants) -> Figures:
        """``COMPARED`` and ``FLAGS`` of all rows at a scenario, as arrays."""
        figures: Figures = {name: np.empty(self._rows) for name in COMPARED}
        figures |= {"feasible": np.empty(self._rows, np.bool_), "extrapolated": np.empty(self._rows, np.bool_)}
        figures["infeasible_reason"] = np.empty(self._rows, np.int8)
        spread = FusedSpread(constants.nodes, constants.scenario.turns)
        for first in range(0, self._rows, BLOCK):
            some = slice(first, first + BLOCK)
            rows = {name: values[some] for name, values in self._of_rows.items()}
            block = {name: values[some] for name, values in figures.items()}
            _fused_block(rows, block, constants, self._turns, spread)
        return figures


def _fused_block(x: Figures, y: Figures, constants: Constants, turns: FusedTurns, spread: FusedSpread) -> None:
    """``y``, the figures of some rows, from ``x``, what no scenario changes."""
    scenario, now = constants.scenario, constants.turns.at(constants.hit_rate)
    output, think_s = scenario.output_tokens_per_turn, scenario.think_time_s
    ms_a_token, ms_a_flop = turns.put(x, y, constants)
    ranks, per_gpu = x["ranks"], x["per_gpu"]
    tpot, latency, rate = (y[name] for name in ("tpot_ms", "turn_latency_ms", "serving_requests_per_s"))
    latency_s = latency * 1e-3
    cycle_s = latency_s + think_s
    rho, sessions, x_turn = y["activity_fraction"], y["sessions"], y["turns_per_s"]
    np.divide(latency_s, cycle_s, out=rho)
    np.multiply(rate, latency_s, out=sessions)
    sessions /= ranks  # requests in flight at a rank
    beyond = sessions - 1.0
    beyond /= rho
    beyond += 1.0
    np.maximum(sessions, beyond, out=sessions)
    sessions *= ranks
    np.divide(sessions, cycle_s, out=x_turn)
    np.multiply(cycle_s, scenario.turns, out=y["task_time_s"])
    np.multiply(sessions, rho, out=y["in_flight_requests"])
    turns_a_gpu, tasks, tokens = (
        y[name] for name in ("turns_per_s_per_gpu", "tasks_per_s_per_gpu", "output_tokens_per_s_per_gpu")
    )
    np.multiply(x_turn, per_gpu, out=turns_a_gpu)
    np.multiply(turns_a_gpu, 1 / scenario.turns, out=tasks)
    np.multiply(tasks, 3600.0, out=y["tasks_per_hour_per_gpu"])
    np.multiply(rate, rho, out=y["tasks_per_s_per_gpu_step9"])
    y["tasks_per_s_per_gpu_step9"] *= per_gpu
    y["tasks_per_s_per_gpu_step9"] *= 1 / scenario.turns
    np.multiply(turns_a_gpu, output, out=tokens)
    np.divide(1e3, tpot, out=y["decode_tokens_per_s_per_user"])
    np.divide(output, latency_s, out=y["e2e_tokens_per_s_per_user"])
    np.multiply(sessions, per_gpu, out=y["sessions_per_gpu"])
    context = scenario.mean_context_tokens + output / 2
    spread.add(y, (ms_a_token, ms_a_flop), ranks, (output - 1.0) * context * x["decode_ms_a_token"])
    _fused_memory(x, y, constants)
    np.divide(x["usd_a_second"], tasks, out=y["usd_per_task"])
    np.divide(1e6 * x["usd_a_second"], tokens, out=y["usd_per_million_output_tokens"])
    y["expected_error_fraction"][:] = x["expected_error_fraction"]
    y["extrapolated"][:] = ~(x["is_evaluated"] & workload_is_near(scenario, now.mean.new_tokens))


def _fused_memory(x: Figures, y: Figures, constants: Constants) -> None:
    scenario, sessions, ranks, kv_a_token = constants.scenario, y["sessions"], x["ranks"], x["kv_a_token"]
    shared = scenario.shared_prefix_tokens
    at_mean, at_peak, fit = (
        y[name] for name in ("kv_bytes_per_session_mean", "kv_bytes_per_session_peak", "max_sessions_mean_context")
    )
    np.multiply(kv_a_token, scenario.mean_context_tokens - shared, out=at_mean)
    np.multiply(kv_a_token, scenario.peak_context_tokens - shared, out=at_peak)
    y["kv_bytes_available"][:] = x["kv_bytes_available"]
    y["least_tp_that_fits"][:] = x["least_tp_that_fits"]
    left = kv_a_token * shared
    held = y["kv_bytes_per_gpu"]
    np.multiply(sessions, at_mean, out=held)
    held += ranks * left
    held *= x["per_gpu"]
    np.subtract(x["left"], left, out=left)
    np.maximum(left, 0.0, out=left)
    for bytes_, name in ((at_mean, fit), (at_peak, y["max_sessions_peak_context"])):
        np.divide(left, bytes_, out=name)
        np.floor(name, out=name)
        name *= ranks
    spread = kv_a_token * (kv.Z_P95 * constants.context_sd)
    root = y["max_sessions_p95_context"]
    np.multiply(at_mean, 4.0, out=root)
    root *= left
    root += spread * spread
    np.sqrt(root, out=root)
    root -= spread
    root /= at_mean
    root *= 0.5
    root *= root
    root += 1e-9
    np.floor(root, out=root)
    root *= ranks
    y["max_sessions"][:] = fit
    y["max_parked_sessions"][:] = fit
    used = y["kv_utilization_fraction"]
    used[:] = np.nan
    np.divide(sessions, fit, out=used, where=fit > 0)
    reason = y["infeasible_reason"]
    reason[:] = np.where(sessions > fit * (1 + TOLERANCE), np.int8(code("infeasible_reason", "kv_capacity")), 0)
    too_fast = y["turns_per_s_per_gpu"] * constants.flops_per_request > x["fastest"]
    reason[too_fast] = code("infeasible_reason", "above_peak_flops")
    np.copyto(reason, x["no_room"], where=x["no_room"] > 0)
    if scenario.peak_context_tokens > constants.longest:
        weights = code("infeasible_reason", "weights_do_not_fit")
        reason[reason != weights] = code("infeasible_reason", "context_too_long")
    np.equal(reason, 0, out=y["feasible"])
