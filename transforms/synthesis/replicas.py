"""The replicas that the roofline prices for a GPU and a model: layouts, precisions and batches."""

from collections.abc import Iterator
from itertools import product
from typing import Final

from schemas.hardware import Hardware
from schemas.models import ModelSpec
from transforms.equations.kv_memory import available_bytes_per_rank, weights_bytes_per_rank

BATCHES: Final = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
GPU_COUNTS: Final = (1, 2, 4, 8)
#: Of a decode worker beside prefill workers.
POOL_BATCHES: Final = (1, 4, 16, 32, 64, 128, 256, 512)
#: (prefill, decode) workers. Agents with a warm cache prefill little: most need more decode workers than prefill ones.
WORKERS: Final = ((1, 1), (1, 2), (1, 4), (2, 1))
#: Share of memory that a worker which is to be chosen keeps for KV and the runtime.
LEAST_SHARE_LEFT: Final = 0.2

#: A row of the table before it is priced, by column.
Shape = dict[str, object]


def aggregated_replicas(gpu: Hardware, spec: ModelSpec) -> Iterator[Shape]:
    """Aggregated replicas by precision, layout and batch of a rank.

    Precisions: the checkpoint's own, and FP8 where that is 16-bit and the GPU computes in FP8.
    Layouts: tensor parallelism within the scale-up network; on a mixture of experts also attention data
    parallelism with the experts spread over all GPUs.
    """
    for (linear, expert), (tp, dp), batch in product(_precisions(gpu, spec), _layouts(gpu, spec), BATCHES):
        layout = _layout(tp, dp, spec)
        yield _of_gpu(gpu) | {
            "serving_mode": "agg", "linear_dtype": linear, "expert_dtype": expert, "gpus_per_replica": tp * dp,
            "concurrency_reported": float(batch * dp), "batch_per_rank": float(batch), **layout,
        }  # fmt: skip


def disaggregated_replicas(gpu: Hardware, spec: ModelSpec) -> Iterator[Shape]:
    """Disaggregated replicas by precision, layout of a decode worker, workers and batch of a decode rank.

    A prefill worker is the smallest that holds the weights, by tensor parallelism; decode workers are that and the
    largest of each layout. None where no worker holds the weights.
    """
    for linear, expert in _precisions(gpu, spec):
        fitting = [layout for layout in _layouts(gpu, spec) if _holds_weights(gpu, spec, linear, expert, *layout)]
        by_tensor = [layout for layout in fitting if layout[1] == 1]
        if not by_tensor:
            continue
        prefill_tp, _ = by_tensor[0]
        largest = max(tp * dp for tp, dp in fitting)
        decode = dict.fromkeys([by_tensor[0], *(layout for layout in fitting if layout[0] * layout[1] == largest)])
        for (tp, dp), (prefills, decodes), batch in product(decode, WORKERS, POOL_BATCHES):
            in_pool = {f"prefill_{name}": value for name, value in _layout(prefill_tp, 1, spec).items()}
            in_pool |= {f"decode_{name}": value for name, value in _layout(tp, dp, spec).items()}
            yield _of_gpu(gpu) | {
                "serving_mode": "disagg", "linear_dtype": linear, "expert_dtype": expert,
                "prefill_workers": prefills, "decode_workers": decodes,
                "prefill_batch": 1.0, "decode_batch": float(batch), "batch_per_rank": float(batch),
                "gpus_per_replica": prefills * prefill_tp + decodes * tp * dp,
                "concurrency_reported": float(batch * dp * decodes), **in_pool,
            }  # fmt: skip


def _of_gpu(gpu: Hardware) -> Shape:
    pools = {f"{pool}_hardware": gpu.slug for pool in ("prefill", "decode")}
    return {"hardware": gpu.slug, "hardware_name": gpu.name, **pools}


def _layout(tp: int, dp: int, spec: ModelSpec) -> dict[str, int]:
    """Tensor parallelism splits the experts too, data parallelism spreads them whole."""
    moe_tp = tp if spec.moe and dp == 1 else 1
    return {"tp": tp, "pp": 1, "dp": dp, "cp": 1, "moe_tp": moe_tp, "moe_ep": dp if spec.moe else 1}


def _precisions(gpu: Hardware, spec: ModelSpec) -> Iterator[tuple[str, str | None]]:
    """(format of the linear layers, format of the experts) that the GPU would serve."""
    linear, own = spec.stored.attention, spec.weight_dtype
    yield linear, (own if spec.moe else None)
    if own in ("bf16", "fp16") and gpu.flops_per_s.fp8 is not None:
        yield "fp8", ("fp8" if spec.moe else None)


def _layouts(gpu: Hardware, spec: ModelSpec) -> Iterator[tuple[int, int]]:
    """(tp, dp) of the replicas."""
    counts = [count for count in GPU_COUNTS if count <= gpu.scale_up_gpus]
    yield from ((count, 1) for count in counts)
    if spec.moe:
        yield from ((1, count) for count in counts if count > 1)


def _holds_weights(gpu: Hardware, spec: ModelSpec, linear: str, expert: str | None, tp: int, dp: int) -> bool:
    experts = 0.0 if expert is None else spec.expert_bytes(expert)
    weights = weights_bytes_per_rank(spec.non_expert_bytes(linear) + spec.vision_bytes, experts, dp)
    return bool(available_bytes_per_rank(tp, gpu.hbm_bytes, LEAST_SHARE_LEFT, weights) > 0)
