"""The mapping's equations on rows that are carried by ratio, written three times: what the mapping is measured against.

All compute every figure that the mapping publishes of such a row at a scenario (``COMPARED``): turn figures and
throughput at the scenario's hit rate, where all turns hit and where all miss; the closed loop; seven percentiles from
the scenario's nodes; sessions that the memory holds at three contexts; whether and why not the row can be run;
evidence; cost. Of one dense model whose KV is linear in the context, with the default options. Choosing rows and what
needs a whole curve (points at the KV wall, the limit's name) is the mapping's alone.

- ``FusedPass``: NumPy, a block of rows at a time that stays in the processor's cache, in place; what no scenario
  changes is worked out once for all of them. The machine's limit for arithmetic on arrays.
- ``figures_in_pandas``: columns of a frame, as one would write it.
- ``figures_of_point``: one row, floats.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas
import polars as pl

from schemas.models import ModelSpec
from schemas.scenarios import Scenario
from transforms.agent_points import expected_errors as evaluated
from transforms.agent_points.carry import Setting
from transforms.agent_points.columns import ROW_FIGURES
from transforms.agent_points.evidence import RANGES, workload_is_near
from transforms.agent_points.gpu import Gpu
from transforms.agent_points.labels import code
from transforms.agent_points.private import add_private_columns
from transforms.agent_points.rows import Rows
from transforms.agent_points.workload import AgentTurns, agent_turns
from transforms.cache import constant_hit_rate
from transforms.equations import kv_memory as kv
from transforms.equations.context import turn_profile
from transforms.equations.roofline import ELEMENTWISE_OVERHEAD
from transforms.peaks import PEAK_TOLERANCE, least_flops_per_s
from transforms.spread.forms import Nodes
from transforms.spread.work import ScenarioNodes, scenario_nodes

Array = npt.NDArray[np.float64]
Figures = dict[str, Any]

#: What the references give of a row, and the mapping publishes.
COMPARED: Final = (
    "ttft_ms", "tpot_ms", "turn_latency_ms", "first_turn_latency_ms", "last_turn_latency_ms", "serving_requests_per_s",
    "turn_latency_all_hits_ms", "turn_latency_all_misses_ms", "serving_requests_per_s_all_hits",
    "serving_requests_per_s_all_misses", "sessions", "activity_fraction", "in_flight_requests", "turns_per_s",
    "task_time_s", "turns_per_s_per_gpu", "tasks_per_s_per_gpu", "tasks_per_hour_per_gpu", "tasks_per_s_per_gpu_step9",
    "output_tokens_per_s_per_gpu", "decode_tokens_per_s_per_user", "e2e_tokens_per_s_per_user", "sessions_per_gpu",
    "turn_latency_p50_ms", "turn_latency_p90_ms", "turn_latency_p99_ms", "task_time_p50_s", "task_time_p90_s",
    "task_time_p99_s", "e2e_tokens_per_s_per_user_p90", "kv_bytes_per_session_mean", "kv_bytes_per_session_peak",
    "kv_bytes_available", "kv_bytes_per_gpu", "max_sessions_mean_context", "max_sessions_p95_context",
    "max_sessions_peak_context", "max_sessions", "max_parked_sessions", "least_tp_that_fits",
    "kv_utilization_fraction", "expected_error_fraction", "usd_per_task", "usd_per_million_output_tokens",
)  # fmt: skip
#: Beside them flags, and the code of the first reason against a row.
FLAGS: Final = ("feasible", "extrapolated", "infeasible_reason")
RESERVE: Final = 0.10
TOLERANCE: Final = 1e-9
#: Rows at a time of the fused pass.
BLOCK: Final = 4_096
#: Cells of a direction's unit, as the percentiles of the mapping have them.
_CELLS: Final = 12
_STEPS: Final = 2 * _CELLS + 1


@dataclass(frozen=True)
class Constants:
    """What all rows share at a scenario."""

    scenario: Scenario
    turns: AgentTurns
    hit_rate: float
    nodes: ScenarioNodes
    context_sd: float
    flops_per_request: float
    longest: float

    @classmethod
    def of(cls, scenario: Scenario, spec: ModelSpec) -> "Constants":
        hit_rate, turns = constant_hit_rate(scenario), agent_turns(scenario, spec.attention)
        tokens = turns.at(hit_rate).mean.new_tokens + scenario.output_tokens_per_turn - 1
        return cls(
            scenario,
            turns,
            hit_rate,
            scenario_nodes(scenario, spec.attention, hit_rate),
            turn_profile(scenario).context_sd,
            least_flops_per_s(spec, tokens, 1.0),
            spec.max_context_tokens or math.inf,
        )


def inputs_of(points: pl.DataFrame, setting: Setting) -> dict[str, Array]:
    """What the equations need of each row, as arrays: looked up as the mapping's preparation does."""
    rows = Rows(add_private_columns(points.rename(ROW_FIGURES), setting.spec, setting.hardware))
    gpu = Gpu.of_rows(rows, "decode")
    names = (
        "row_ttft_ms", "row_tpot_ms", "row_latency_ms", "row_requests_per_s", "isl_tokens", "osl_tokens",
        "prefix_tokens", "batch_per_rank", "tp", "pp", "dp", "cp", "gpus_per_replica", "memory_bytes_per_gpu",
        "usd_per_gpu_hour", "_kv_element_bytes", "_non_expert_bytes", "_batch_range", "_is_evaluated",
    )  # fmt: skip
    of_gpu = ("hbm_bytes", "hbm_bandwidth_bytes_per_s", "article_flops_per_s", "fastest_flops_per_s")
    own = {name: rows[name].astype(np.float64) for name in names} | {name: getattr(gpu, name) for name in of_gpu}
    groups, tp = setting.spec.attention, rows["tp"]
    return own | {
        "kv_bytes_per_token": kv.kv_bytes_on_rank(groups, 1.0, rows["_kv_element_bytes"], tp),
        "kv_read_bytes_per_token": kv.kv_read_bytes_per_gpu(groups, 1.0, rows["_kv_element_bytes"], tp),
    }


class FusedPass:
    """The figures of many rows at any scenario."""

    def __init__(self, x: Mapping[str, Array], spec: ModelSpec) -> None:
        """What no scenario changes. ``x``: as ``inputs_of``."""
        ranks, gpus, batch, tp = x["dp"], x["gpus_per_replica"], x["batch_per_rank"], x["tp"] * x["pp"]
        bandwidth = x["hbm_bandwidth_bytes_per_s"]
        weights = x["_non_expert_bytes"] * x["cp"]
        read = ELEMENTWISE_OVERHEAD * x["_non_expert_bytes"] / (tp * bandwidth)
        read_a_token = ELEMENTWISE_OVERHEAD * batch * x["kv_read_bytes_per_token"] / bandwidth
        compute = 2.0 * spec.parameters_active * batch / (tp * x["article_flops_per_s"])
        before = np.maximum(read + read_a_token * (x["isl_tokens"] + x["osl_tokens"] / 2), compute)
        scale = x["row_tpot_ms"] / before
        usable = x["hbm_bytes"] * (1.0 - RESERVE)
        available = gpus / ranks * usable - weights
        fits = available > 0
        too_much = x["memory_bytes_per_gpu"] > x["hbm_bytes"]
        ratio = np.maximum(weights / usable, 0.5)
        errors = np.array([evaluated.EXPECTED_ERRORS["ratio", "agg"][label] for label in RANGES])
        reason = np.where(too_much, np.int8(code("infeasible_reason", "table_memory_exceeds_gpu")), np.int8(0))
        self._of_rows = {
            "ms_a_token": x["row_ttft_ms"] / (x["isl_tokens"] - x["prefix_tokens"]),
            "ms_a_flop": np.zeros_like(ranks),
            "read": scale * read,
            "read_a_token": scale * read_a_token,
            "compute": scale * compute,
            "requests": x["row_requests_per_s"] * x["row_latency_ms"],
            "ranks": ranks,
            "per_gpu": 1.0 / gpus,
            "kv_a_token": x["kv_bytes_per_token"],
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
        spread = _Spread(constants.nodes)
        for first in range(0, self._rows, BLOCK):
            some = slice(first, first + BLOCK)
            rows = {name: values[some] for name, values in self._of_rows.items()}
            _fused_block(rows, {name: values[some] for name, values in figures.items()}, constants, spread)
        return figures


def _fused_block(x: Mapping[str, Array], y: Figures, constants: Constants, spread: "_Spread") -> None:
    """``y``, the figures of some rows, from ``x``, what no scenario changes."""
    scenario, turns = constants.scenario, constants.turns
    now, output, think_s = turns.at(constants.hit_rate), scenario.output_tokens_per_turn, scenario.think_time_s
    ms_a_token, requests, ranks, per_gpu = (x[name] for name in ("ms_a_token", "requests", "ranks", "per_gpu"))
    tpot, ttft, latency, rate = (
        y[name] for name in ("tpot_ms", "ttft_ms", "turn_latency_ms", "serving_requests_per_s")
    )
    np.multiply(x["read_a_token"], now.decode_context_tokens, out=tpot)
    tpot += x["read"]
    np.maximum(tpot, x["compute"], out=tpot)
    decode = tpot * (output - 1.0)
    np.multiply(ms_a_token, now.mean.new_tokens, out=ttft)
    np.add(ttft, decode, out=latency)
    ends = ("first_turn_latency_ms", now.first), ("last_turn_latency_ms", now.last)
    for name, prefill in (*ends, ("turn_latency_all_hits_ms", turns.on_hit.mean),
                          ("turn_latency_all_misses_ms", turns.on_miss.mean)):  # fmt: skip
        np.multiply(ms_a_token, prefill.new_tokens, out=y[name])
        y[name] += decode
    np.divide(requests, latency, out=rate)
    for end in ("hits", "misses"):
        np.divide(requests, y[f"turn_latency_all_{end}_ms"], out=y[f"serving_requests_per_s_all_{end}"])
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
    spread.add(y, ms_a_token, x["ms_a_flop"])
    _fused_memory(x, y, constants)
    np.divide(x["usd_a_second"], tasks, out=y["usd_per_task"])
    np.divide(1e6 * x["usd_a_second"], tokens, out=y["usd_per_million_output_tokens"])
    y["expected_error_fraction"][:] = x["expected_error_fraction"]
    y["extrapolated"][:] = ~(x["is_evaluated"] & workload_is_near(scenario, now.mean.new_tokens))


def _fused_memory(x: Mapping[str, Array], y: Figures, constants: Constants) -> None:
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


class _Spread:
    """Percentiles of blocks of rows from a scenario's nodes; what a cell is multiplied by is looked up once."""

    def __init__(self, nodes: ScenarioNodes) -> None:
        self._nodes = nodes
        self._tables: dict[int, tuple[Array, Array]] = {}

    def add(self, y: Figures, ms_a_token: Array, ms_a_flop: Array) -> None:
        """The percentiles of rows with turn figures."""
        nodes, tpot = self._nodes, y["tpot_ms"]
        means = nodes.turns.means
        rest = y["turn_latency_ms"] - ms_a_token * means[1]
        rest -= ms_a_flop * means[2]
        rest -= tpot * means[3]
        forms = [rest, ms_a_token, ms_a_flop, tpot]
        names = [f"turn_latency_{share}_ms" for share in ("p50", "p90", "p99")]
        self._put([y[name] for name in names], nodes.turns, forms, (0.5, 0.9, 0.99))
        tasks = [y[f"task_time_{share}_s"] for share in ("p50", "p90", "p99")]
        self._put(tasks, nodes.tasks, [*forms, np.array(1e3)], (0.5, 0.9, 0.99))
        for values in tasks:
            values *= 1e-3
        slowest = y["e2e_tokens_per_s_per_user_p90"]
        self._put([slowest], nodes.per_token, forms, (0.9,))
        np.divide(1e3, slowest, out=slowest)

    def _put(self, out: list[Array], nodes: Nodes, forms: list[Array], shares: tuple[float, ...]) -> None:
        varying = np.flatnonzero(nodes.deviations).tolist()
        cells = self._cells(nodes, [forms[q] * nodes.deviations[q] for q in varying], shares)
        base: Array | float = 0.0
        for quantity, form in enumerate(forms):
            if quantity not in varying:
                base = base + form * nodes.means[quantity]
        for number, values in enumerate(out):
            values[:] = base
            for quantity in varying:
                values += forms[quantity] * cells(quantity, number)
            if number:
                np.maximum(values, out[number - 1], out=values)

    def _cells(self, nodes: Nodes, amounts: list[Array], shares: tuple[float, ...]) -> Callable[[int, int], Array]:
        """What rows of these directions are multiplied by, for a quantity and a share."""
        if not amounts:
            raise ValueError("nothing varies in this scenario")
        total = np.abs(amounts[0])
        for amount in amounts[1:]:
            total += np.abs(amount)
        np.divide(_CELLS, total, out=total)
        key = np.zeros(len(total), np.int64)
        for amount in reversed(amounts):
            key *= _STEPS
            step = amount * total
            key += np.rint(step, out=step).astype(np.int64)
            key += _CELLS
        taken = np.unique(key) if (key != key[0]).any() else key[:1]
        factors = [nodes.factors(number, shares) for number in taken.tolist()]
        if len(taken) == 1:
            return lambda quantity, share: factors[0][quantity, share]
        table, place = np.stack(factors), np.searchsorted(taken, key)
        return lambda quantity, share: table[place, quantity, share]


def figures_in_pandas(x: pandas.DataFrame, constants: Constants, spec: ModelSpec) -> pandas.DataFrame:
    """``COMPARED`` and ``FLAGS`` of the rows of a frame, column by column."""
    vectors = _Operations(np.maximum, np.floor, np.sqrt, np.log2, pandas.Series.where, _spread_of_columns)
    return pandas.DataFrame(_figures(x, constants, spec, vectors))


def figures_of_point(x: Mapping[str, float], constants: Constants, spec: ModelSpec) -> Figures:
    """``COMPARED`` and ``FLAGS`` of one row."""
    numbers = _Operations(
        max, lambda v: float(math.floor(v)), math.sqrt, math.log2, lambda v, is_known, other: v if is_known else other,
        _spread_of_point,
    )  # fmt: skip
    return _figures(x, constants, spec, numbers)


@dataclass(frozen=True)
class _Operations:
    """What columns and floats spell differently. ``where``: values, where they stay, what else."""

    maximum: Callable[..., Any]
    floor: Callable[[Any], Any]
    sqrt: Callable[[Any], Any]
    log2: Callable[[Any], Any]
    where: Callable[[Any, Any, Any], Any]
    spread: Callable[[Nodes, list[Any], tuple[float, ...]], list[Any]]


def _figures(x: Any, constants: Constants, spec: ModelSpec, op: _Operations) -> Figures:
    scenario, turns = constants.scenario, constants.turns
    now, output, think_s = turns.at(constants.hit_rate), scenario.output_tokens_per_turn, scenario.think_time_s
    ranks, gpus, tp, bandwidth = x["dp"], x["gpus_per_replica"], x["tp"] * x["pp"], x["hbm_bandwidth_bytes_per_s"]
    batch, kv_a_token = x["batch_per_rank"], x["kv_bytes_per_token"]

    def decode_s(context: Any) -> Any:
        weights = x["_non_expert_bytes"] / (tp * bandwidth)
        read = batch * context * x["kv_read_bytes_per_token"] / bandwidth
        compute = 2.0 * spec.parameters_active * batch / (tp * x["article_flops_per_s"])
        return op.maximum((weights + read) * ELEMENTWISE_OVERHEAD, compute)

    ms_a_token = x["row_ttft_ms"] / (x["isl_tokens"] - x["prefix_tokens"])
    tpot = x["row_tpot_ms"] * decode_s(now.decode_context_tokens) / decode_s(x["isl_tokens"] + x["osl_tokens"] / 2)
    decode = tpot * (output - 1.0)
    ttft = ms_a_token * now.mean.new_tokens
    latency = ttft + decode
    all_hits = ms_a_token * turns.on_hit.mean.new_tokens + decode
    all_misses = ms_a_token * turns.on_miss.mean.new_tokens + decode
    requests = x["row_requests_per_s"] * x["row_latency_ms"]
    rate, latency_s = requests / latency, latency / 1e3
    rho = latency_s / (latency_s + think_s)
    in_flight = rate * latency_s / ranks
    sessions = ranks * op.maximum(in_flight, 1.0 + (in_flight - 1.0) / rho)
    turns_per_s = sessions / (latency_s + think_s)
    per_gpu = turns_per_s / gpus
    tasks, tokens = per_gpu / scenario.turns, per_gpu * output
    nodes = constants.nodes
    means = nodes.turns.means
    ms_a_flop = 0.0 * ms_a_token  # the ratio knows no attention
    rest = latency - ms_a_token * means[1] - ms_a_flop * means[2] - tpot * means[3]
    forms = [rest, ms_a_token, ms_a_flop, tpot]
    of_turns = op.spread(nodes.turns, forms, (0.5, 0.9, 0.99))
    of_tasks = op.spread(nodes.tasks, [*forms, 0.0 * rest + 1e3], (0.5, 0.9, 0.99))
    (per_token,) = op.spread(nodes.per_token, forms, (0.9,))
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
    errors = np.array([evaluated.EXPECTED_ERRORS["ratio", "agg"][label] for label in RANGES])
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
        "ttft_ms": ttft,
        "tpot_ms": tpot,
        "turn_latency_ms": latency,
        "first_turn_latency_ms": ms_a_token * now.first.new_tokens + decode,
        "last_turn_latency_ms": ms_a_token * now.last.new_tokens + decode,
        "serving_requests_per_s": rate,
        "turn_latency_all_hits_ms": all_hits,
        "turn_latency_all_misses_ms": all_misses,
        "serving_requests_per_s_all_hits": requests / all_hits,
        "serving_requests_per_s_all_misses": requests / all_misses,
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
        "turn_latency_p50_ms": of_turns[0],
        "turn_latency_p90_ms": of_turns[1],
        "turn_latency_p99_ms": of_turns[2],
        "task_time_p50_s": of_tasks[0] / 1e3,
        "task_time_p90_s": of_tasks[1] / 1e3,
        "task_time_p99_s": of_tasks[2] / 1e3,
        "e2e_tokens_per_s_per_user_p90": 1e3 / per_token,
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


def _spread_of_columns(nodes: Nodes, forms: list[Any], shares: tuple[float, ...]) -> list[Any]:
    """Percentiles of the forms of a frame's rows, cell by cell."""
    steps = _steps_of([form.abs() for form in forms], forms, nodes)
    key = sum((step.round() + _CELLS) * _STEPS**place for place, step in enumerate(steps))
    frame = pandas.concat(forms, axis=1, keys=range(len(forms)))
    parts = []
    for cell, rows in frame.groupby(key):
        parts.append(pandas.DataFrame(rows.to_numpy() @ nodes.factors(int(cell), shares), index=rows.index))
    found = pandas.concat(parts).sort_index().cummax(axis=1)
    return [found[place] for place in found]


def _spread_of_point(nodes: Nodes, forms: list[float], shares: tuple[float, ...]) -> list[float]:
    steps = _steps_of([abs(form) for form in forms], forms, nodes)
    key = sum((round(step) + _CELLS) * _STEPS**place for place, step in enumerate(steps))
    factors = _factors_of_cell(nodes, key, shares)
    found = [sum(form * factor for form, factor in zip(forms, of_share, strict=True)) for of_share in factors]
    return [max(found[: place + 1]) for place in range(len(found))]


_OF_CELL: dict[tuple[int, int, tuple[float, ...]], list[list[float]]] = {}


def _factors_of_cell(nodes: Nodes, key: int, shares: tuple[float, ...]) -> list[list[float]]:
    if (id(nodes), key, shares) not in _OF_CELL:
        _OF_CELL[id(nodes), key, shares] = nodes.factors(key, shares).T.tolist()
    return _OF_CELL[id(nodes), key, shares]


def _steps_of(sizes: list[Any], forms: list[Any], nodes: Nodes) -> list[Any]:
    """Where in a cell's units the direction of forms points, in each quantity that varies."""
    deviations = nodes.deviations
    varying = [quantity for quantity in range(len(forms)) if deviations[quantity] > 0]
    total = sum(sizes[quantity] * deviations[quantity] for quantity in varying)
    return [forms[quantity] * deviations[quantity] * _CELLS / total for quantity in varying]
