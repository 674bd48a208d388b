"""What changes in an engine step when the workload changes: physics added, overheads kept.

A step time is moved to another workload by adding the difference of what physics says about its
memory reads and its arithmetic; whatever else it holds (launches, collectives, scheduling) stays,
because it does not scale. All times in ms.
"""

from transforms.numbers import Number, e_to_the, largest, smallest, square_root

#: Share of peak HBM bandwidth that reading weights reaches (AIConfigurator 0.12.0,
#: ``mem_bw_empirical_scaling_factor`` in its system files).
KV_READ_EFFICIENCY = 0.8
#: Share of peak FLOP/s that prefill attention with heads of 128 reaches: that of a large GEMM.
ATTENTION_EFFICIENCY = 0.53
#: The same by engine: FlashAttention-3 and its kin are 1.15 times as fast as TensorRT-LLM's kernels (medians of
#: AIConfigurator 0.12.0's ``context_attention_perf`` at 8,192 to 16,384 tokens: 0.51 against 0.59 on H100 and
#: H200, 0.46 against 0.51 on B200).
ATTENTION_EFFICIENCY_OF_ENGINE = {"trtllm": 0.53, "sglang": 0.61, "vllm": 0.61}
#: Engines that run MLA on NVIDIA GPUs before Blackwell, in 16 bits, with FlashAttention-3: a prefill takes its absorbed
#: form, over the latent itself, and so the FLOPs of decoding (on DeepSeek-V3 2 * (512 + 64 + 512) for each head and
#: pair in place of 2 * (192 + 128): 3.4 times as many). Measured kernels (AIConfigurator 0.12.0, ``context_mla_perf``,
#: medians at 8,192 to 16,384 tokens), plain FLOPs over peak: SGLang 0.18 on H100 and H200, but 0.50 to 0.56 on B200
#: and GB200; TensorRT-LLM 0.57 on H100 and H200.
ENGINES_OF_ABSORBED_PREFILL = ("sglang",)
#: Bytes a second at which their decoding reads a latent that is cached in FP8, which it converts: 0.275e12 on H100 and
#: 0.30e12 on H200, whatever the heads (``generation_mla_perf``, growth from 8,192 to 65,536 tokens); a latent in
#: 16 bits is read at 0.9 of peak.
FP8_LATENT_BYTES_PER_S = 0.29e12
#: One decode-attention kernel alone: the share of peak bandwidth that a long read reaches,
#: what a read loses until then, and how long it is until then. Fitted to measured kernels alone, of five Hopper
#: and Blackwell GPUs under three engines (AIConfigurator 0.12.0, ``generation_attention_perf`` in its systems'
#: data): the growth of a kernel's time with its context within 6 % (median; 14 % at a constant 0.8).
KERNEL_READ_EFFICIENCY = 0.93
KERNEL_LOSS_MS = 0.010
KERNEL_RAMP_MS = 0.015
#: Exponentials a second of the special-function units: 3.9e12 on an H100 (Shah et al., FlashAttention-3,
#: 2024, section 1); a B200 has 4.4e12 (148 SMs, 16 a clock each).
EXPONENTIALS_PER_S = 3.9e12
#: The head size that ``ATTENTION_EFFICIENCY`` is stated for.
REFERENCE_HEAD_DIM = 128
#: At most this share of a prefill's linear part is fixed (one read of all weights).
FIXED_SHARE_AT_MOST = 0.6


def overlapped(first: Number, second: Number) -> Number:
    """Time of two resources that work side by side, overlapping in part: their Euclidean sum.

    It lies between perfect overlap (the larger of the two) and none (their sum).
    """
    return square_root(first * first + second * second)


def kernel_read_ms(peak_ms: Number) -> Number:
    """Time of one decode-attention kernel, less its launch, that reads for ``peak_ms`` at peak bandwidth.

    Concave: a short read does not fill the memory system, which costs a long one ``KERNEL_LOSS_MS``.
    """
    return peak_ms / KERNEL_READ_EFFICIENCY + KERNEL_LOSS_MS * (1.0 - e_to_the(-peak_ms / KERNEL_RAMP_MS))


def head_size_slowdown(flops_per_s: Number, head_dim: float | None) -> Number:
    """Time of a FLOP of prefill attention against one with heads of the reference size (``None``: 1).

    Each score costs ``4 * head_dim`` FLOPs and one exponential: with small heads the exponentials weigh more.
    Heads of 64 against heads of 128: 1.3 on an H100 and 1.6 on a B200; measured kernels (as above) 1.2 and 1.6.
    """

    def slowdown(size: float) -> Number:
        return overlapped(1.0, flops_per_s / (4.0 * size * EXPONENTIALS_PER_S))

    return 1.0 if head_dim is None else slowdown(head_dim) / slowdown(REFERENCE_HEAD_DIM)


def attention_ms(
    attention_flops: Number, tp: Number, flops_per_s: Number, efficiency: Number = ATTENTION_EFFICIENCY
) -> Number:
    """``A``: ms of prefill attention whose heads are split over ``tp`` GPUs."""
    return 1e3 * attention_flops / (tp * flops_per_s * efficiency)


def fixed_part_ms(linear_ms: Number, weight_read_ms: Number) -> Number:
    """``f``: the part of a prefill's linear work that does not grow with its tokens."""
    return smallest(largest(weight_read_ms, 0.0), FIXED_SHARE_AT_MOST * linear_ms)


def moved_decode_step_ms(t_dec_ms: Number, kv_read_before_ms: Number, kv_read_after_ms: Number) -> Number:
    """``t_dec' = t_dec + KVt(B, L') - KVt(B, L)``, never below the reading of the new contexts: at the row's own
    speed where it reads faster than physics says."""
    least = kv_read_after_ms * priced_share(t_dec_ms, kv_read_before_ms)
    return largest(t_dec_ms + kv_read_after_ms - kv_read_before_ms, least)


def priced_share(step_ms: Number, priced_ms: Number) -> Number:
    """What to multiply the physics of a step's parts with: 1, less where they exceed the whole step."""
    return smallest(1.0, step_ms / largest(priced_ms, 1e-12))


def growth_ms_per_token(linear_ms: Number, fixed_ms: Number, new_tokens: Number) -> Number:
    """What the linear part of a prefill grows by with a token: at another number of them it is ``f + (lin - f) *
    new'/new``."""
    return (linear_ms - fixed_ms) / new_tokens
