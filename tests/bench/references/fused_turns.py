"""Turn figures of blocks of rows, in place: by ratio, and from engine steps."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from schemas.arrays import Array
from schemas.models import ModelSpec
from tests.bench.references.figures import Constants, Figures, Inputs
from transforms.agent_points.carriers.linear_work import LinearCurves
from transforms.agent_points.carriers.workload import Prefill
from transforms.equations import transfer
from transforms.equations.engine_steps import mixed_steps, ttft_queue_factor
from transforms.equations.roofline import ELEMENTWISE_OVERHEAD


class FusedTurns(Protocol):
    """A method's turn figures. ``of_rows``: what no scenario changes."""

    of_rows: Figures

    def put(self, x: Figures, y: Figures, constants: Constants) -> tuple[Array, Array]:
        """Puts them into ``y`` for a block ``x``; gives what a token and a FLOP of a turn's own prefill take, in ms."""
        ...


def fused_turns(inputs: Inputs) -> FusedTurns:
    """Of the method of these rows."""
    if inputs.curves is None:
        return _ByRatio(inputs.x, inputs.spec)
    return _FromSteps(inputs.x, inputs.spec, inputs.curves)


class _ByRatio:
    def __init__(self, x: Mapping[str, Array], spec: ModelSpec) -> None:
        batch, tp, bandwidth = x["batch_per_rank"], x["tp"] * x["pp"], x["hbm_bandwidth_bytes_per_s"]
        read = ELEMENTWISE_OVERHEAD * x["_non_expert_bytes"] / (tp * bandwidth)
        read_a_token = ELEMENTWISE_OVERHEAD * batch * x["kv_read_bytes_per_token"] / bandwidth
        compute = 2.0 * spec.parameters_active * batch / (tp * x["article_flops_per_s"])
        before = np.maximum(read + read_a_token * (x["isl_tokens"] + x["osl_tokens"] / 2), compute)
        scale = x["row_tpot_ms"] / before
        self.of_rows: Figures = {
            "ms_a_token": x["row_ttft_ms"] / (x["isl_tokens"] - x["prefix_tokens"]),
            "ms_a_flop": np.zeros_like(batch),
            "read": scale * read,
            "read_a_token": scale * read_a_token,
            "compute": scale * compute,
            "requests": x["row_requests_per_s"] * x["row_latency_ms"],
        }

    def put(self, x: Figures, y: Figures, constants: Constants) -> tuple[Array, Array]:
        turns, output = constants.turns, constants.scenario.output_tokens_per_turn
        now, ms_a_token = turns.at(constants.hit_rate), x["ms_a_token"]
        tpot, ttft, latency = y["tpot_ms"], y["ttft_ms"], y["turn_latency_ms"]
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
        np.divide(x["requests"], latency, out=y["serving_requests_per_s"])
        for end in ("hits", "misses"):
            np.divide(x["requests"], y[f"turn_latency_all_{end}_ms"], out=y[f"serving_requests_per_s_all_{end}"])
        return ms_a_token, x["ms_a_flop"]


class _FromSteps:
    def __init__(self, x: Mapping[str, Array], spec: ModelSpec, curves: LinearCurves) -> None:
        serial, batch, together = x["_is_serial"] > 0, x["batch_per_rank"], x["context_requests_per_step"]
        layers, correction = spec.attention[0].layers, x["_read_correction"]
        n_mix = mixed_steps(batch, together)
        between = np.where(serial, n_mix, np.maximum(1.0, n_mix - 3.0))
        before = correction * x["_read_before"]
        linear = np.where(x["_linear"] > 0, x["_linear"] / x["_linear_before"], 0.0)
        step = x["decode_step_ms"]
        stations = x["dp"] * x["pp"]
        self._curves = [each.ravel() for each in (curves.ends_at_tokens, curves.intercept_ms, curves.slope_ms)]
        self._width = curves.ends_at_tokens.shape[1]
        self.of_rows: Figures = {
            "serial": serial,
            "batch": batch,
            "together": together,
            "over_together": 1.0 / together,
            "accepted": x["accepted_tokens"],
            "n_mix": n_mix,
            "delaying": np.where(batch <= 1, 0.0, between),
            "more_than_one": batch > 1,
            "queue": ttft_queue_factor(serial, batch, n_mix),
            "dispatch": x["_dispatch_ms"],
            "beside": np.maximum(batch - np.ceil(together), 0.0),
            "batch_a_step": batch / n_mix,
            "read_a_token": 1e3 * x["kv_read_bytes_per_token"] / layers / x["hbm_bandwidth_bytes_per_s"],
            "correction": correction * layers,
            "step_less_read": step - before,
            "share_of_read": transfer.priced_share(step, before),
            "linear": linear,
            "attention": x["_attention_share"] * layers,
            "ms_a_flop": x["_attention_share"] * x["attention_ms_per_flop"],
            "is_longer": x["mixed_step_ms"] >= step,
            "requests": 1e3 * stations * batch,
            "table": x["row_requests_per_s"] / x["_rate_of_steps"],
            "piece": x["_deployment"].astype(np.intp) * self._width,
        }

    def put(self, x: Figures, y: Figures, constants: Constants) -> tuple[Array, Array]:
        turns, output = constants.turns, constants.scenario.output_tokens_per_turn
        now, serial, n_mix, together = turns.at(constants.hit_rate), x["serial"], x["n_mix"], x["together"]
        iterations = 1.0 + (output - 1.0) / x["accepted"]
        decoding = np.maximum(iterations - n_mix, 0.0)
        delaying = np.where(x["more_than_one"] & (n_mix >= iterations), n_mix, x["delaying"])
        others = x["beside"]
        beside = np.where(serial | (decoding > 0), others, np.minimum(others, x["batch_a_step"] * iterations))
        read_a_request = x["read_a_token"] * now.decode_context_tokens
        step = x["correction"] * _kernel_read(x["batch"] * read_a_request)
        least = step * x["share_of_read"]
        step += x["step_less_read"]
        np.maximum(step, least, out=step)
        attention_beside = x["attention"] * _kernel_read(beside * read_a_request)
        attention_a_flop = x["ms_a_flop"] * together

        def prefill(each: Prefill) -> Array:
            found = self._linear(x, together * each.new_tokens + beside)
            found += attention_a_flop * each.attention_flops
            return found

        def mixed(prefills: Array) -> Array:
            found = prefills + attention_beside
            np.maximum(found, step, out=found, where=x["is_longer"])
            return np.asarray(found)

        steps = delaying + decoding
        over_steps = np.divide(1.0, steps, out=np.zeros_like(steps), where=steps > 0)

        def token(mix: Array) -> Array:
            found = mix * delaying
            found += step * decoding
            found *= over_steps
            found /= x["accepted"]
            return found

        def rate(mix: Array, latency: Array, out: Array) -> None:
            np.multiply(mix, n_mix, out=out)
            out += step * decoding
            np.divide(x["requests"], out, out=out)
            np.minimum(out, x["requests"] / latency, out=out, where=serial)
            out *= x["table"]

        mean = prefill(now.mean)
        mix = mixed(mean)
        y["ttft_ms"][:] = (mix + x["dispatch"]) * x["queue"]
        y["tpot_ms"][:] = token(mix)
        decode = y["tpot_ms"] * (output - 1.0)
        np.add(y["ttft_ms"], decode, out=y["turn_latency_ms"])
        shortest = np.maximum(step, 0.0)
        for name, each in (("first_turn_latency_ms", now.first), ("last_turn_latency_ms", now.last)):
            own = prefill(each)
            own -= mean
            own *= x["over_together"]
            own += y["ttft_ms"]
            np.maximum(own, shortest, out=own)
            np.add(own, decode, out=y[name])
        rate(mix, y["turn_latency_ms"], y["serving_requests_per_s"])
        for name, each in (("hits", turns.on_hit.mean), ("misses", turns.on_miss.mean)):
            mix = mixed(prefill(each))
            latency = y[f"turn_latency_all_{name}_ms"]
            np.multiply(token(mix), output - 1.0, out=latency)
            latency += (mix + x["dispatch"]) * x["queue"]
            rate(mix, latency, y[f"serving_requests_per_s_all_{name}"])
        light, heavy = constants.light_tokens, constants.heavy_tokens
        ms_a_token = self._linear(x, together * heavy)
        ms_a_token -= self._linear(x, together * light)
        ms_a_token *= x["over_together"] / (heavy - light)
        return ms_a_token, x["ms_a_flop"]

    def _linear(self, x: Figures, tokens: Array) -> Array:
        ends, intercept, slope = self._curves
        piece, half = x["piece"].copy(), self._width // 2
        while half:
            piece += half * (ends[piece + (half - 1)] <= tokens)
            half //= 2
        found = slope[piece] * tokens
        found += intercept[piece]
        found *= x["linear"]
        return np.asarray(found)


def _kernel_read(peak_ms: Array) -> Array:
    found = peak_ms * (-1.0 / transfer.KERNEL_RAMP_MS)
    np.exp(found, out=found)
    found -= 1.0
    found *= -transfer.KERNEL_LOSS_MS
    found += peak_ms / transfer.KERNEL_READ_EFFICIENCY
    return found
