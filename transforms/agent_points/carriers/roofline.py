"""Roofline rows need no transfer: the roofline is evaluated at the agent's own workload (model.md 5.9)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np

from schemas.arrays import Flags, Indices
from schemas.models import ModelSpec
from transforms.agent_points.carriers.workload import Prefill, Workload
from transforms.agent_points.rows.columns import turn_figures
from transforms.agent_points.rows.gpu import Gpu
from transforms.agent_points.rows.lookups import Deployed
from transforms.agent_points.rows.rows import Rows
from transforms.equations import engine_steps, roofline
from transforms.equations import roofline_steps as steps
from transforms.equations.kv_memory import decode_attention_flops, kv_read_bytes_per_gpu
from transforms.numbers import Number


@dataclass(frozen=True)
class RooflineReplica:
    """Replicas of one model; each field is one number a row. Rates are per GPU.

    ``kv_bytes`` is one context at the decode context on each GPU of a rank; ``flops_per_s`` is the
    article's compute rate, those of the parts are what engines run.
    """

    prefill_gpus: Number
    rank_gpus: Number
    dp: Number
    non_expert_bytes: Number
    bytes_per_expert: Number
    kv_bytes: Number
    flops_per_s: Number
    linear_flops_per_s: Number
    expert_flops_per_s: Number
    attention_flops_per_s: Number
    hbm_bytes_per_s: Number
    link_bytes_per_s: Number

    @classmethod
    def of_rows(
        cls,
        rows: Rows,
        spec: ModelSpec,
        gpu: Gpu,
        decode_context_tokens: Number,
        pool: Literal["", "prefill_"] = "",
    ) -> Self:
        """The replicas of rows with the private columns; of a disaggregated one a decode or a prefill worker."""
        deployed = Deployed(rows)
        tp, pp, dp = deployed.rank_tp, deployed.rank_pp, deployed.rank_dp
        if pool:
            tp, pp, dp = (rows[f"{pool}{name}"] for name in ("tp", "pp", "dp"))
        return cls(
            prefill_gpus=deployed.prefilling_gpus,
            rank_gpus=tp * pp,
            dp=dp,
            non_expert_bytes=deployed.non_expert_bytes,
            bytes_per_expert=deployed.expert_bytes / (spec.moe.experts if spec.moe else 1),
            kv_bytes=kv_read_bytes_per_gpu(spec.attention, decode_context_tokens, deployed.kv_element_bytes, tp),
            flops_per_s=gpu.article_flops_per_s,
            linear_flops_per_s=gpu.linear_flops_per_s,
            expert_flops_per_s=gpu.expert_flops_per_s,
            attention_flops_per_s=gpu.bf16_flops_per_s,
            hbm_bytes_per_s=gpu.hbm_bandwidth_bytes_per_s,
            link_bytes_per_s=np.where(
                rows["gpus_per_replica"] <= gpu.scale_up_gpus, gpu.scale_up_bytes_per_s, gpu.scale_out_bytes_per_s
            ),
        )


@dataclass(frozen=True)
class TurnTimes:
    """Seconds to the first token of the mean, first and last turn, and a token; requests/s of the replica."""

    mean_ttft_s: Number
    first_ttft_s: Number
    last_ttft_s: Number
    tpot_s: Number
    requests_per_s: Number

    def latency_s(self, output_tokens: float) -> Number:
        """R of the mean turn."""
        return roofline.latency_s(self.mean_ttft_s, self.tpot_s, output_tokens)

    def figures(self, output_tokens: float) -> dict[str, Number]:
        """The turn figures of an agent point, in ms."""
        seconds = (self.mean_ttft_s, self.first_ttft_s, self.last_ttft_s, self.tpot_s)
        mean, first, last, tpot = (1e3 * values for values in seconds)
        return turn_figures(mean, first, last, tpot, output_tokens)


@dataclass(frozen=True)
class RooflineRows:
    """Aggregated roofline rows of one model and preset (``backend_version``)."""

    method: ClassVar[str] = "roofline"
    rows: Rows
    spec: ModelSpec
    preset: str

    def take(self, which: Flags | Indices) -> "RooflineRows":
        """Those of the rows."""
        return RooflineRows(self.rows.take(which), self.spec, self.preset)

    def figures_at(self, workload: Workload) -> dict[str, Number]:
        """The roofline at the agent's workload: turn figures and ``serving_requests_per_s``."""
        gpu = Gpu(self.rows, "decode")
        replica = RooflineReplica.of_rows(self.rows, self.spec, gpu, workload.decode_context_tokens)
        times = turn_times(self.preset, replica, self.rows["batch_per_rank"], workload, self.spec)
        return {**times.figures(workload.output_tokens), "serving_requests_per_s": times.requests_per_s}

    def prefill_slopes(self, light: Prefill, heavy: Prefill) -> tuple[Number, Number]:
        """Of one prefill, by the preset."""
        replica = RooflineReplica.of_rows(self.rows, self.spec, Gpu(self.rows, "decode"), 0.0)
        return prefill_slopes_ms(self.preset, replica, light, heavy, self.spec)


def turn_times(
    preset: str, replica: RooflineReplica, batch_per_rank: Number, workload: Workload, spec: ModelSpec
) -> TurnTimes:
    """A batch on replicas by a preset, ``article`` (model.md 3) or ``calibrated``. Raises ``KeyError`` for another."""
    by_preset = {"article": _article_times, "calibrated": _calibrated_times}
    return by_preset[preset](replica, batch_per_rank, workload, spec)


def prefill_batch_s(
    preset: str, worker: RooflineReplica, prefill: Prefill, workload: Workload, spec: ModelSpec
) -> Number:
    """One prefill alone on a prefill worker, by a preset. Raises ``KeyError`` for another."""
    by_preset: dict[str, Callable[[], Number]] = {
        "article": lambda: article_prefill_s(worker, prefill.new_tokens, spec),
        "calibrated": lambda: _step_s(worker, 0.0, prefill, workload, spec),
    }
    return by_preset[preset]()


def prefill_slopes_ms(
    preset: str, worker: RooflineReplica, light: Prefill, heavy: Prefill, spec: ModelSpec
) -> tuple[Number, Number]:
    """ms of a new token and of a FLOP of attention of a prefill alone, between two of them, by a preset."""
    nothing_decodes = Workload(0.0, 1.0, light, light, light)

    def time_s(new_tokens: Number, attention_flops: Number) -> Number:
        return prefill_batch_s(preset, worker, Prefill(new_tokens, attention_flops), nothing_decodes, spec)

    more = time_s(heavy.new_tokens, 0.0)
    per_token = (more - time_s(light.new_tokens, 0.0)) / (heavy.new_tokens - light.new_tokens)
    with_attention = time_s(heavy.new_tokens, heavy.attention_flops)
    per_flop = (with_attention - more) / heavy.attention_flops if heavy.attention_flops else 0.0
    return 1e3 * per_token, 1e3 * per_flop


def decode_step_s(
    preset: str, worker: RooflineReplica, batch_per_rank: Number, workload: Workload, spec: ModelSpec
) -> Number:
    """One decode step on a worker that does not prefill, by a preset. Raises ``KeyError`` for another."""
    by_preset: dict[str, Callable[[], Number]] = {
        "article": lambda: article_decode_s(worker, batch_per_rank, spec),
        "calibrated": lambda: _step_s(worker, batch_per_rank, None, workload, spec),
    }
    return by_preset[preset]()


def article_prefill_s(replica: RooflineReplica, new_tokens: Number, spec: ModelSpec) -> Number:
    """Eq. 2 on all GPUs that prefill together."""
    return roofline.prefill_s(spec.parameters_active, new_tokens, replica.prefill_gpus, replica.flops_per_s)


def article_decode_s(replica: RooflineReplica, batch_per_rank: Number, spec: ModelSpec) -> Number:
    """TPOT by Eqs. 3-3c. Under attention data parallelism each rank reads the whole non-expert part."""
    bandwidth = replica.hbm_bytes_per_s
    all_gpus, tokens = replica.rank_gpus * replica.dp, batch_per_rank * replica.dp
    weights = roofline.weight_read_s(replica.non_expert_bytes, replica.rank_gpus, bandwidth)
    if spec.moe is not None:
        active = roofline.active_experts(tokens, spec.moe.experts_per_token, spec.moe.experts)
        weights = weights + roofline.expert_read_s(active, replica.bytes_per_expert, all_gpus, bandwidth)
    kv = roofline.kv_read_s(batch_per_rank, replica.kv_bytes, bandwidth)
    compute = roofline.decode_compute_s(spec.parameters_active, tokens, all_gpus, replica.flops_per_s)
    return roofline.tpot_s(weights, kv, compute)


def _article_times(replica: RooflineReplica, batch: Number, workload: Workload, spec: ModelSpec) -> TurnTimes:
    mean, first, last = workload.of_each_turn(lambda prefill: article_prefill_s(replica, prefill.new_tokens, spec))
    tpot = article_decode_s(replica, batch, spec)
    latency = roofline.latency_s(mean, tpot, workload.output_tokens)
    return TurnTimes(mean, first, last, tpot, batch * replica.dp / latency)


def _calibrated_times(replica: RooflineReplica, batch: Number, workload: Workload, spec: ModelSpec) -> TurnTimes:
    """Mixed steps of one prefill beside everybody's decode, and decode-only steps, by the step equations."""
    t_dec = _step_s(replica, batch, None, workload, spec)
    t_mix, first, last = workload.of_each_turn(
        lambda prefill: np.maximum(_step_s(replica, np.maximum(batch - 1.0, 0.0), prefill, workload, spec), t_dec)
    )
    n_mix = np.maximum(batch, 1.0)
    n_dec = engine_steps.decode_only_steps(n_mix, workload.output_tokens)
    q = engine_steps.ttft_queue_factor(False, batch, n_mix)
    tpot = engine_steps.tpot(t_mix, t_dec, steps.mixed_weight(batch), n_dec)
    rate = engine_steps.requests_per_s(batch, replica.dp, n_mix, n_dec, 1e3 * t_mix, 1e3 * t_dec)
    return TurnTimes(t_mix * q, t_mix * q + (first - t_mix), t_mix * q + (last - t_mix), tpot, rate)


def _step_s(
    replica: RooflineReplica,
    decoding: Number,
    prefill: Prefill | None,
    workload: Workload,
    spec: ModelSpec,
) -> Number:
    """One step of a rank: ``decoding`` requests that decode, beside one prefill if there is one."""
    bandwidth, attention_flops_per_s = replica.hbm_bytes_per_s, replica.attention_flops_per_s
    tokens = decoding + (prefill.new_tokens if prefill else 0.0)
    parameters = spec.parameters
    expert_active = spec.parameters_active - parameters.non_expert
    linear_active = parameters.non_expert - (parameters.embedding if parameters.output_head else 0)
    linear_bytes = replica.non_expert_bytes - (spec.stored_bytes.embedding if parameters.output_head else 0)
    time = steps.product_s(
        linear_bytes / replica.rank_gpus,
        2.0 * linear_active * tokens / replica.rank_gpus,
        bandwidth,
        replica.linear_flops_per_s,
    )
    moe_layers = 0
    if spec.moe is not None:
        moe_layers = spec.moe.layers
        all_tokens, all_gpus = tokens * replica.dp, replica.rank_gpus * replica.dp
        touched = steps.distinct_experts(all_tokens, spec.moe.experts_per_token, spec.moe.experts)
        time = time + steps.product_s(
            touched * replica.bytes_per_expert / all_gpus,
            2.0 * expert_active * all_tokens / all_gpus,
            bandwidth,
            replica.expert_flops_per_s,
        )
        time = time + steps.dispatch_s(all_tokens, spec.hidden_size, moe_layers, replica.dp, replica.link_bytes_per_s)
    decode_flops = decode_attention_flops(spec.attention, workload.decode_context_tokens) / replica.rank_gpus
    time = time + steps.decode_attention_s(decoding, replica.kv_bytes, decode_flops, bandwidth, attention_flops_per_s)
    if prefill is not None:
        time = time + steps.prefill_attention_s(prefill.attention_flops / replica.rank_gpus, attention_flops_per_s)
    reduced = steps.all_reduce_s(tokens, spec.hidden_size, spec.layers, replica.rank_gpus, replica.link_bytes_per_s)
    return time + reduced + steps.launch_s(spec.layers, moe_layers)
