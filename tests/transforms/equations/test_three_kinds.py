"""Every equation gives the same values on floats, NumPy arrays and Polars expressions, alone and mixed.

A public function of ``transforms/equations`` that is neither in ``CASES`` nor in ``NOT_ELEMENTWISE`` fails a test.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
import pytest

from schemas.models import AttentionGroup
from transforms import equations, numbers
from transforms.equations import (
    closed_loop,
    context,
    cost,
    curve,
    disaggregation,
    engine_steps,
    kv_memory,
    kv_room,
    roofline,
    roofline_steps,
    routing,
    shared_engine,
    transfer,
)

Function = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """An equation with values for what may be a vector, one column an argument, and for what never is."""

    function: Function
    numbers: Mapping[str, list[Any]]
    fixed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.function.__module__.rsplit('.', 1)[-1]}.{self.function.__name__}"


GROUPS = (
    AttentionGroup(kind="gqa", layers=3, kv_heads=4, kv_elements_per_entry=512, flops_per_pair=8_192),
    AttentionGroup(
        kind="sliding_window", layers=2, kv_heads=2, kv_elements_per_entry=256, window_tokens=999, flops_per_pair=4_096
    ),
    AttentionGroup(
        kind="chunked", layers=2, kv_heads=2, kv_elements_per_entry=256, window_tokens=700, flops_per_pair=4_096
    ),
    AttentionGroup(
        kind="compressed",
        layers=1,
        kv_heads=1,
        kv_elements_per_entry=576,
        tokens_per_entry=4,
        kv_extra_bytes_per_entry=132.0,
        recent_tokens=128,
        recent_elements_per_token=512,
        attended_entries=100,
        index_flops_per_entry=64,
        flops_per_pair=1_024,
    ),
    AttentionGroup(
        kind="linear", layers=4, kv_heads=8, kv_elements_per_entry=0, state_bytes=1_000_000, flops_per_pair=0
    ),
)
# Values lie on both sides of every minimum, maximum and condition of the equations, and on them.
B = [1.0, 2.0, 7.0, 64.0, 300.0]
N_MIX = [1.0, 2.0, 4.0, 64.0, 300.0]
OSL = [128.0, 1.0, 8.0, 64.0, 100.0]
MS = [0.5, 20.0, 3.0, 40.0, 100.0]
OTHER_MS = [1.0, 2.0, 30.0, 4.0, 90.0]
SECONDS = [0.02, 1.0, 0.3, 4.0, 0.001]
TOKENS = [0.0, 50.0, 1_000.0, 3_500.0, 70_000.0]
NEW = [1.0, 700.0, 100.0, 2_800.0, 0.0]
GPUS = [1.0, 2.0, 4.0, 8.0, 16.0]
SHARE = [1.0, 0.8, 0.5, 0.1, 0.01]
BYTES = [1e6, 5e8, 2e9, 7e10, 1.4e11]
RATES = [1e12, 3.35e12, 4.8e12, 8e12, 2e12]
FLOPS = [1e12, 5e13, 9e14, 2e15, 1e10]

LOW_C, HIGH_C = [2.0, 10.0, 20.0, 1.0, 0.5], [30.0, 40.0, 70.0, 35.0, 100.0]
LOW_R, HIGH_R = [0.5, 2.0, 1.0, 5.0, 4.446], [6.0, 6.0, 9.0, 7.0, 7.576]

MEMORIES = [15e9, 40e9, 84e9, 149e9, 309e9]
SMALL = [False, False, True, False, False]
CASES = [
    Case(context.context_at_turn, {"turn": B, "initial_prompt_tokens": TOKENS, "new_tokens": NEW,
                                   "retained_output_tokens": OSL}),
    Case(cost.mean_usd_per_gpu_hour, {"prefill_gpus": GPUS, "prefill_usd_per_gpu_hour": MS, "decode_gpus": N_MIX,
                                      "decode_usd_per_gpu_hour": OTHER_MS}),
    Case(cost.usd_per_task, {"usd_per_gpu_hour": MS, "tasks_per_s_per_gpu": SECONDS}),
    Case(cost.usd_per_million_tokens, {"usd_per_gpu_hour": MS, "tokens_per_s_per_gpu": SECONDS}),
    Case(cost.kwh_per_task, {"watts_per_gpu": MS, "tasks_per_hour_per_gpu": SECONDS}),
    Case(cost.tasks_per_hour_per_mw, {"watts_per_gpu": MS, "tasks_per_hour_per_gpu": SECONDS}),
    Case(curve.load_of_most_turns, {"in_flight_0": LOW_C, "latency_0_s": LOW_R, "in_flight_1": HIGH_C,
                                    "latency_1_s": HIGH_R}, {"think_time_s": 2.0}),
    Case(curve.in_flight_between, {"sessions_per_station": LOW_C, "in_flight_0": SHARE, "latency_0_s": LOW_R,
                                   "in_flight_1": HIGH_C, "latency_1_s": HIGH_R, "think_time_s": OTHER_MS}),
    Case(curve.share_between, {"value": B, "low": LOW_C, "high": [30.0, 10.0, 20.0, 35.0, 100.0]}),
    Case(curve.along, {"low": LOW_R, "high": HIGH_R, "share": SHARE}),
    Case(curve.sessions_at_wall, {"sessions_0": LOW_C, "latency_0_s": LOW_R, "sessions_1": HIGH_C,
                                  "latency_1_s": [6.0, 6.0, 9.0, 5.0, 7.576], "think_time_s": OTHER_MS,
                                  "parked_limit": [20.0, float("inf"), 21.0, 17.0, 90.0],
                                  "in_flight_limit": [6.0, 14.0, float("inf"), 3.0, 40.0]}),
    Case(curve.sessions_that_fit, {"max_parked_sessions": [20.0, float("inf"), 21.0, 17.0, 90.0],
                                     "max_in_flight_requests": [6.0, 14.0, float("inf"), 3.0, 40.0], "rho": SHARE}),
    Case(roofline.prefill_s, {"active_parameters": BYTES, "new_tokens": NEW, "gpus": GPUS, "flops_per_s": FLOPS}),
    Case(roofline.weight_read_s, {"weight_bytes": BYTES, "gpus": GPUS, "hbm_bytes_per_s": RATES}),
    Case(roofline.active_experts, {"tokens_in_step": B, "experts_per_token": N_MIX, "experts": [8.0, 8, 8, 256, 8]}),
    Case(roofline.expert_read_s, {"active": B, "bytes_per_expert": BYTES, "gpus": GPUS, "hbm_bytes_per_s": RATES}),
    Case(roofline.kv_read_s, {"batch_per_rank": B, "kv_bytes_per_gpu": BYTES, "hbm_bytes_per_s": RATES}),
    Case(roofline.decode_compute_s, {"active_parameters": BYTES, "tokens_in_step": B, "gpus": GPUS,
                                     "flops_per_s": FLOPS}),
    Case(roofline.tpot_s, {"weight_s": SECONDS, "kv_s": SHARE, "compute_s": [0.001, 9.0, 0.2, 9.0, 0.0121]}),
    Case(roofline.latency_s, {"ttft_s": SECONDS, "tpot": SHARE, "osl_tokens": OSL}),
    Case(roofline_steps.distinct_experts, {"tokens": B, "experts_per_token": [8.0, 8, 2, 1, 8],
                                           "experts": [256.0, 8, 8, 16, 128]}),
    Case(roofline_steps.product_s, {"read_bytes": BYTES, "flops": FLOPS, "hbm_bytes_per_s": RATES,
                                    "flops_per_s": FLOPS}),
    Case(roofline_steps.decode_attention_s, {"contexts": B, "kv_bytes": BYTES, "flops": FLOPS,
                                             "hbm_bytes_per_s": RATES, "flops_per_s": FLOPS}),
    Case(roofline_steps.prefill_attention_s, {"flops": FLOPS, "flops_per_s": FLOPS}),
    Case(roofline_steps.all_reduce_s, {"tokens": TOKENS, "gpus": GPUS, "link_bytes_per_s": RATES},
         {"hidden": 4_096, "layers": 32}),
    Case(roofline_steps.dispatch_s, {"tokens": TOKENS, "ranks": GPUS, "link_bytes_per_s": RATES},
         {"hidden": 4_096, "moe_layers": 30}),
    Case(roofline_steps.mixed_weight, {"batch": [0.4, 1.0, 1.5, 4.0, 300.0]}),
    Case(engine_steps.mixed_steps, {"batch": B, "prefills_per_mixed_step": [4.0, 1, 2, 0.3, 7]}),
    Case(engine_steps.decode_only_steps, {"n_mix": N_MIX, "osl_tokens": OSL}),
    Case(engine_steps.ttft_queue_factor, {"vllm": [True, False, True, False, True], "batch": B, "n_mix": N_MIX}),
    Case(engine_steps.tpot_mixed_weight, {"vllm": [True, False, True, False, True], "batch": B, "n_mix": N_MIX,
                                          "osl_tokens": OSL}),
    Case(engine_steps.mixed_step_of_row, {"ttft_ms": MS, "queue_factor": OTHER_MS, "dispatch_ms": SECONDS}),
    Case(engine_steps.decode_step_of_row, {"tpot_ms": MS, "t_mix_ms": OTHER_MS, "m": [0.0, 1, 3, 61, 300],
                                           "n_dec": [127.0, 0, 4, 0, 1]}),
    Case(engine_steps.ttft, {"t_mix_ms": MS, "queue_factor": OTHER_MS, "dispatch_ms": SECONDS}),
    Case(engine_steps.tpot, {"t_mix_ms": MS, "t_dec_ms": OTHER_MS, "m": [0.0, 1, 3, 0, 300],
                             "n_dec": [127.0, 0, 4, 0, 1]}),
    Case(engine_steps.requests_per_s, {"batch": B, "stations": GPUS, "n_mix": N_MIX, "n_dec": [127.0, 0, 4, 0, 1],
                                       "t_mix_ms": MS, "t_dec_ms": OTHER_MS}),
    Case(disaggregation.prefill_of_row_ms, {"ttft_ms": MS}),
    Case(shared_engine.output_token_time, {"step": MS, "displaced_fraction": [0.2, 0.9, 1.3, 0.0, 0.5]}),
    Case(shared_engine.prefill_wait, {"busy": [0.1, 0.5, 0.99, 0.3, 0.0], "prefill": MS,
                                      "second_moment": [1.0, 3.0, 9.0, 2.0, 1.0],
                                      "others": [0.0, 3.0, 500.0, 1.0, 2.0]}),
    Case(disaggregation.prefill_pool_rate, {"workers": GPUS, "requests_per_batch": B, "prefill_ms": MS}),
    Case(disaggregation.decode_pool_rate, {"workers": GPUS, "slots_per_worker": B, "tpot_ms": MS,
                                           "osl_tokens": OSL}),
    Case(disaggregation.matched_rate, {"prefill_rate": MS, "decode_rate": OTHER_MS}),
    Case(disaggregation.handover_ms, {"kv_bytes": BYTES, "links": GPUS, "link_bytes_per_s": RATES}),
    Case(closed_loop.activity_fraction, {"turn_latency_s": SECONDS, "think_time_s": [0.0, 0.5, 2, 10, 1e3]}),
    Case(closed_loop.in_flight_per_station, {"requests_per_s": MS, "latency_s": SECONDS, "stations": GPUS}),
    *(
        Case(function, {name: [0.3, 1.0, 1.7, 40.0, 300.0], "rho": SHARE, "stations": GPUS}, {"closed_loop": preset})
        for function, name in (
            (closed_loop.sessions_that_fill, "in_flight"),
            (closed_loop.in_flight_of_sessions, "sessions"),
        )
        for preset in ("arrival", "article")
    ),
    Case(closed_loop.turns_per_s, {"sessions": B, "turn_latency_s": SECONDS, "think_time_s": [0.0, 0.5, 2, 10, 1e3]}),
    Case(closed_loop.task_time_s, {"turns": B, "turn_latency_s": SECONDS, "think_time_s": [0.0, 0.5, 2, 10, 1e3]}),
    Case(closed_loop.tasks_per_s_step9, {"serving_requests_per_s": MS, "turns": B, "rho": SHARE}),
    Case(transfer.overlapped, {"first": MS, "second": OTHER_MS}),
    Case(transfer.priced_share, {"step_ms": MS, "priced_ms": OTHER_MS}),
    Case(transfer.kernel_read_ms, {"peak_ms": [0.0, 1e-4, 4e-3, 0.064, 3.0]}),
    Case(transfer.head_size_slowdown, {"flops_per_s": FLOPS}, {"head_dim": 64.0}),
    Case(transfer.attention_ms, {"attention_flops": FLOPS, "tp": GPUS, "flops_per_s": FLOPS}),
    Case(transfer.fixed_part_ms, {"linear_ms": MS, "weight_read_ms": [-1.0, 3, 30, 24, 60.1]}),
    Case(transfer.moved_decode_step_ms, {"t_dec_ms": MS, "kv_read_before_ms": OTHER_MS,
                                         "kv_read_after_ms": [0.1, 9, 9, 9, 0]}),
    Case(transfer.growth_ms_per_token, {"linear_ms": MS, "fixed_ms": SHARE, "new_tokens": OSL}),
    *(
        Case(function, {"tokens": TOKENS, "bytes_per_element": [2.0, 1, 2, 1, 0.5625], **more},
             {"groups": GROUPS, **fixed})
        for function, more, fixed in (
            (kv_memory.kv_bytes, {}, {"paged": False}),
            (kv_memory.kv_bytes, {}, {"paged": True}),
            (kv_memory.kv_bytes_on_rank, {"tp": GPUS}, {}),
            (kv_memory.session_bytes_on_rank, {"tp": GPUS}, {"shared_tokens": 0.0, "paged": False}),
            (kv_memory.session_bytes_on_rank, {"tp": GPUS}, {"shared_tokens": 0.0, "paged": True}),
            (kv_memory.kv_slope_bytes_per_token, {"tp": GPUS}, {"paged": False}),
            (kv_memory.kv_read_bytes_per_gpu, {"tp": GPUS}, {}),
        )
    ),
    Case(kv_memory.head_copies, {"tp": GPUS}, {"group": GROUPS[0]}),
    Case(kv_memory.state_bytes, {"tp": GPUS}, {"groups": GROUPS}),
    Case(kv_memory.page_padding_bytes, {"bytes_per_element": [2.0, 1, 2, 1, 0.5625], "tp": GPUS}, {"groups": GROUPS}),
    *(
        Case(kv_memory.attention_pair_sum, {"cached": TOKENS, "new": NEW}, {"window": window, "chunked": chunked})
        for window, chunked in ((None, False), (1_000, False), (700, True))
    ),
    Case(kv_memory.attention_flops, {"cached": TOKENS, "new": NEW}, {"groups": GROUPS}),
    Case(kv_memory.decode_attention_flops, {"tokens": TOKENS}, {"groups": GROUPS}),
    Case(kv_memory.weights_bytes_per_rank, {"non_expert_bytes": BYTES, "expert_bytes": RATES, "dp": GPUS}),
    Case(kv_memory.available_bytes_per_rank, {"gpus_per_rank": GPUS, "hbm_bytes": BYTES, "reserve_fraction": SHARE,
                                              "weights_per_rank": RATES, "overhead_bytes_per_gpu": MS}),
    Case(kv_memory.least_gpus_that_fit, {"weights_per_rank": BYTES, "usable_per_gpu": [2e6, 5e8, 1e9, 8e10, 8e10]}),
    Case(kv_memory.max_sessions, {"left_per_rank": [-1e9, 0, 3e9, 6e9, 1e12], "session_bytes": BYTES, "dp": GPUS}),
    Case(kv_memory.sessions_p95_per_rank, {"left": [-1e9, 0, 3e9, 6e10, 1e12], "session_bytes": BYTES,
                                           "slope_times_sd": [0.0, 1e6, 1e8, 1e9, 1e10]}),
    Case(kv_room.forward_bytes, {"tokens": TOKENS, "tp": GPUS},
         {"hidden": 4096.0, "experts_per_token": 8.0, "mlp_width": 43_008.0}),
    Case(kv_room.vllm_step_tokens, {"offered_bytes": MEMORIES, "is_small": SMALL}),
    Case(kv_room.vllm_requests, {"offered_bytes": MEMORIES, "is_small": SMALL}),
    Case(kv_room.vllm_usable_bytes, {"offered_bytes": MEMORIES, "version": [9, 19, 22, 99, 17], "forward": BYTES,
                                     "requests": [256.0, 256, 1024, 1024, 1024], "gpus": GPUS},
         {"vocabulary": 128_256.0}),
    *(
        Case(kv_room.sglang_static_fraction, {"offered_bytes": MEMORIES, "tp_size": GPUS, "pp": [1.0, 1, 2, 1, 4],
                                              "dp": [1.0, 1, 2, 8, 8]}, {"is_latent": latent, "role": role})
        for latent, role in ((False, "agg"), (True, "prefill"), (True, "decode"))
    ),
    Case(kv_room.sglang_usable_bytes, {"offered_bytes": MEMORIES, "static_fraction": SHARE, "gpus": GPUS}),
    Case(kv_room.trtllm_usable_bytes, {"offered_bytes": MEMORIES, "forward": BYTES, "gpus": GPUS},
         {"vocabulary": 128_256.0}),
    Case(kv_room.server_bytes_per_rank, {"kv_tokens": TOKENS, "ranks": GPUS, "session_bytes": BYTES,
                                         "session_tokens": BYTES}),
    Case(routing.share_last_there, {"turns_ago": [1.0, 2.0, 3.0, 20.0, 64.0], "replicas": [1.0, 2.0, 4.0, 8.0, 64.0]}),
    Case(routing.share_never_there, {"turns_before": [0.0, 1.0, 3.0, 20.0, 64.0],
                                     "replicas": [2.0, 2.0, 4.0, 8.0, 64.0]}),
    Case(routing.mean_turns_missed, {"turns_before": [0.0, 1.0, 3.0, 20.0, 64.0],
                                     "replicas": [2.0, 2.0, 4.0, 8.0, 64.0]}),
]  # fmt: skip
#: Public functions that map no vector element by element, and why.
NOT_ELEMENTWISE = {
    "context.turn_profile": "makes the arrays of a scenario's turns",
    "kv_memory.prefix_block_tokens": "of the layers of one model",
    "kv_memory.session_floor_bytes": "of the layers of one model",
    "closed_loop.solve_load": "solves for arrays; tested in test_closed_loop.py",
    "roofline_steps.launch_s": "takes two counts of a model",
    "routing.copies_held": "of the turns of one session in order; tested in tests/transforms/cache/test_routing.py",
    "routing.new_tokens_in_slices": "makes slices of the turns of one session; tested there as routed_profile",
}


def public_functions() -> set[str]:
    found = set()
    for module_info in pkgutil.iter_modules(equations.__path__):
        module = importlib.import_module(f"{equations.__name__}.{module_info.name}")
        found |= {
            f"{module_info.name}.{name}"
            for name, value in vars(module).items()
            if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
        }
    return found


def on_floats(case: Case) -> list[float]:
    rows = zip(*case.numbers.values(), strict=True)
    return [float(case.function(**dict(zip(case.numbers, row, strict=True)), **case.fixed)) for row in rows]


def on_polars(case: Case, vectors: set[str], row: int) -> list[float]:
    """``vectors`` as columns, the other arguments as the floats of that row."""
    given = {name: pl.col(name) if name in vectors else values[row] for name, values in case.numbers.items()}
    frame = pl.DataFrame({name: case.numbers[name] for name in vectors}, strict=False)
    # an equation may not use the one argument that is a vector: then its value is a float
    values = frame.with_columns(value=case.function(**given, **case.fixed))["value"]
    return values.cast(pl.Float64).to_list()


def on_numpy(case: Case, vectors: set[str], row: int) -> list[float]:
    """The same with arrays."""
    given = {name: np.array(values) if name in vectors else values[row] for name, values in case.numbers.items()}
    value = np.asarray(case.function(**given, **case.fixed), dtype=np.float64)
    result: list[float] = np.broadcast_to(value, len(next(iter(case.numbers.values())))).tolist()
    return result


def test_every_public_equation_is_covered() -> None:
    covered = {case.name for case in CASES} | set(NOT_ELEMENTWISE)
    assert public_functions() == covered


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_vectors_give_what_floats_give(case: Case) -> None:
    floats = on_floats(case)
    everything = set(case.numbers)
    assert on_numpy(case, everything, 0) == pytest.approx(floats, rel=1e-12)
    assert on_polars(case, everything, 0) == pytest.approx(floats, rel=1e-12)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_one_vector_among_floats(case: Case) -> None:
    """Each argument alone as a vector, the others held at the values of one row."""
    for name in case.numbers:
        for row in range(len(case.numbers[name])):
            held = {other: [values[row]] * len(values) for other, values in case.numbers.items() if other != name}
            expected = on_floats(Case(case.function, {**held, name: case.numbers[name]}, case.fixed))
            assert on_numpy(case, {name}, row) == pytest.approx(expected, rel=1e-12)
            assert on_polars(case, {name}, row) == pytest.approx(expected, rel=1e-12)


def test_the_helpers_take_mixed_arguments() -> None:
    values = np.array([1.0, 5.0])
    assert numbers.smallest(3.0, values, 4.0).tolist() == [1.0, 3.0]
    assert numbers.largest(values, 3.0).tolist() == [3.0, 5.0]
    assert numbers.if_else(values > 2, values, 0.0).tolist() == [0.0, 5.0]
    frame = pl.DataFrame({"x": [1.0, 5.0]})
    assert frame.select(numbers.smallest(3.0, pl.col("x"))).to_series().to_list() == [1.0, 3.0]
    assert frame.select(numbers.if_else(pl.col("x") > 2, 9.0, pl.col("x"))).to_series().to_list() == [1.0, 9.0]
