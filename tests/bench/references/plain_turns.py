"""Turn figures of rows, or of one: by ratio, and from engine steps."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from schemas.models import ModelSpec
from tests.bench.references.figures import Constants, Figures
from transforms.equations import transfer
from transforms.equations.roofline import ELEMENTWISE_OVERHEAD
from transforms.spread.forms import Nodes

#: Turn figures, and what a token and a FLOP of a turn's own prefill take, in ms.
Turns = tuple[Figures, Any, Any]


@dataclass(frozen=True)
class Operations:
    """What columns and floats spell differently. ``where``: values, where they stay, what else."""

    maximum: Callable[..., Any]
    minimum: Callable[..., Any]
    floor: Callable[[Any], Any]
    ceil: Callable[[Any], Any]
    sqrt: Callable[[Any], Any]
    log2: Callable[[Any], Any]
    exp: Callable[[Any], Any]
    where: Callable[[Any, Any, Any], Any]
    curve: Callable[[Any, Any], Any]
    spread: Callable[[Nodes, list[Any], tuple[float, ...]], list[Any]]


def turns_by_ratio(x: Any, constants: Constants, spec: ModelSpec, op: Operations) -> Turns:
    """The roofline's ratio between two workloads."""
    turns, output = constants.turns, constants.scenario.output_tokens_per_turn
    now, batch = turns.at(constants.hit_rate), x["batch_per_rank"]
    tp, bandwidth = x["tp"] * x["pp"], x["hbm_bandwidth_bytes_per_s"]

    def decode_s(context: Any) -> Any:
        weights = x["_non_expert_bytes"] / (tp * bandwidth)
        read = batch * context * x["kv_read_bytes_per_token"] / bandwidth
        compute = 2.0 * spec.parameters_active * batch / (tp * x["article_flops_per_s"])
        return op.maximum((weights + read) * ELEMENTWISE_OVERHEAD, compute)

    ms_a_token = x["row_ttft_ms"] / (x["isl_tokens"] - x["prefix_tokens"])
    tpot = x["row_tpot_ms"] * decode_s(now.decode_context_tokens) / decode_s(x["isl_tokens"] + x["osl_tokens"] / 2)
    decode = tpot * (output - 1.0)
    requests = x["row_requests_per_s"] * x["row_latency_ms"]
    latency, all_hits, all_misses = (
        ms_a_token * prefill.new_tokens + decode for prefill in (now.mean, turns.on_hit.mean, turns.on_miss.mean)
    )
    figures = {
        "ttft_ms": ms_a_token * now.mean.new_tokens,
        "tpot_ms": tpot,
        "turn_latency_ms": latency,
        "first_turn_latency_ms": ms_a_token * now.first.new_tokens + decode,
        "last_turn_latency_ms": ms_a_token * now.last.new_tokens + decode,
        "serving_requests_per_s": requests / latency,
        "turn_latency_all_hits_ms": all_hits,
        "turn_latency_all_misses_ms": all_misses,
        "serving_requests_per_s_all_hits": requests / all_hits,
        "serving_requests_per_s_all_misses": requests / all_misses,
    }
    return figures, ms_a_token, 0.0 * ms_a_token  # the ratio knows no attention


def turns_from_steps(x: Any, constants: Constants, spec: ModelSpec, op: Operations) -> Turns:
    """Mixed and decode steps moved to the agent's workload, and put together again."""
    turns, output, layers = constants.turns, constants.scenario.output_tokens_per_turn, spec.attention[0].layers
    now, batch, together = turns.at(constants.hit_rate), x["batch_per_rank"], x["context_requests_per_step"]
    is_serial = x["_is_serial"] > 0
    n_mix = op.where(op.ceil(batch / together - 1e-9), batch > 1, 1.0)
    iterations = 1.0 + (output - 1.0) / x["accepted_tokens"]
    decoding = op.maximum(iterations - n_mix, 0.0)
    queue = op.where(
        op.minimum(1.0 + op.log2(op.maximum(batch, 1.0)) / 8.0, 2.0),
        is_serial,
        op.minimum(2.0 + (n_mix - 3.0) / 20.0, 4.0),
    )
    delaying = op.where(n_mix, is_serial, op.maximum(1.0, n_mix - 3.0))
    delaying = op.where(op.where(n_mix, n_mix >= iterations, delaying), batch > 1, 0.0)
    others = op.maximum(batch - op.ceil(together), 0.0)
    prefill_bound = op.where(others, decoding > 0, op.minimum(others, batch * iterations / n_mix))
    beside = op.where(others, is_serial, prefill_bound)

    def decode_attention(contexts: Any) -> Any:
        bytes_ = contexts * now.decode_context_tokens * x["kv_read_bytes_per_token"] / layers
        read = 1e3 * bytes_ / x["hbm_bandwidth_bytes_per_s"]
        lost = transfer.KERNEL_LOSS_MS * (1.0 - op.exp(-read / transfer.KERNEL_RAMP_MS))
        return layers * (read / transfer.KERNEL_READ_EFFICIENCY + lost)

    before, after = (x["_read_correction"] * read for read in (x["_read_before"], decode_attention(batch)))
    step = x["decode_step_ms"] + after - before
    step = op.maximum(step, after * op.minimum(1.0, x["decode_step_ms"] / op.maximum(before, 1e-12)))

    def linear(tokens: Any) -> Any:
        moved = x["_linear"] * op.curve(tokens, x["_deployment"]) / x["_linear_before"]
        return op.where(moved, x["_linear"] > 0, 0.0)

    def prefill(each: Any) -> Any:
        attention = together * each.attention_flops * x["attention_ms_per_flop"]
        return linear(together * each.new_tokens + beside) + x["_attention_share"] * attention

    def mixed(prefills: Any) -> Any:
        found = prefills + x["_attention_share"] * decode_attention(beside)
        return op.where(op.maximum(found, step), x["mixed_step_ms"] >= x["decode_step_ms"], found)

    def ttft_and_tpot(mix: Any) -> tuple[Any, Any]:
        steps = delaying + decoding
        tpot = op.where((mix * delaying + step * decoding) / op.maximum(steps, 1e-12), steps > 0, 0.0)
        return (mix + x["_dispatch_ms"]) * queue, tpot / x["accepted_tokens"]

    def rate(mix: Any, latency: Any) -> Any:
        requests = 1e3 * x["dp"] * x["pp"] * batch
        found = requests / (n_mix * mix + decoding * step)
        found = op.where(op.minimum(found, requests / latency), is_serial, found)
        return found * x["row_requests_per_s"] / x["_rate_of_steps"]

    mean = prefill(now.mean)
    mix = mixed(mean)
    ttft, tpot = ttft_and_tpot(mix)
    decode, shortest = tpot * (output - 1.0), op.maximum(step, 0.0)
    first, last = (
        op.maximum(ttft + (prefill(each) - mean) / together, shortest) + decode for each in (now.first, now.last)
    )
    figures = {
        "ttft_ms": ttft,
        "tpot_ms": tpot,
        "turn_latency_ms": ttft + decode,
        "first_turn_latency_ms": first,
        "last_turn_latency_ms": last,
        "serving_requests_per_s": rate(mix, ttft + decode),
    }
    for name, each in (("hits", turns.on_hit.mean), ("misses", turns.on_miss.mean)):
        mix = mixed(prefill(each))
        ttft, tpot = ttft_and_tpot(mix)
        figures[f"turn_latency_all_{name}_ms"] = latency = ttft + tpot * (output - 1.0)
        figures[f"serving_requests_per_s_all_{name}"] = rate(mix, latency)
    light, heavy = (linear(together * tokens) for tokens in (constants.light_tokens, constants.heavy_tokens))
    per_token = (heavy - light) / together / (constants.heavy_tokens - constants.light_tokens)
    return figures, per_token, x["_attention_share"] * x["attention_ms_per_flop"]
