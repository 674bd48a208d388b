"""What changes in an engine step when the workload changes: physics added, overheads kept.

A step time is moved to another workload by adding the difference of what physics says about its
memory reads and attention arithmetic; whatever else it holds (launches, collectives, scheduling)
stays, because it does not scale. All times in ms.
"""

from transforms.numbers import Number, maximum, minimum

#: Share of peak HBM bandwidth that KV reads reach (AIConfigurator 0.12.0,
#: ``mem_bw_empirical_scaling_factor`` in its system files).
KV_READ_EFFICIENCY = 0.8
#: Share of peak FLOP/s that prefill attention reaches: that of a large GEMM.
ATTENTION_EFFICIENCY = 0.53
#: At most this share of a prefill's linear part is fixed (one read of all weights).
FIXED_SHARE_AT_MOST = 0.6


def kv_read_ms(contexts: Number, kv_bytes_per_gpu: Number, hbm_bytes_per_s: float) -> Number:
    """``KVt``: ms to read that many contexts, each of ``kv_bytes_per_gpu`` on one GPU."""
    return 1e3 * contexts * kv_bytes_per_gpu / (hbm_bytes_per_s * KV_READ_EFFICIENCY)


def attention_ms(attention_flops: Number, tp: Number, flops_per_s: Number) -> Number:
    """``A``: ms of prefill attention whose heads are split over ``tp`` GPUs."""
    return 1e3 * attention_flops / (tp * flops_per_s * ATTENTION_EFFICIENCY)


def fixed_part_ms(linear_ms: Number, weight_read_ms: Number) -> Number:
    """``f``: the part of a prefill's linear work that does not grow with its tokens."""
    return minimum(maximum(weight_read_ms, 0.0), FIXED_SHARE_AT_MOST * linear_ms)


def moved_decode_step_ms(t_dec_ms: Number, kv_read_before_ms: Number, kv_read_after_ms: Number) -> Number:
    """``t_dec' = t_dec + KVt(B, L') - KVt(B, L)``, never below the reading of the new contexts."""
    return maximum(t_dec_ms + kv_read_after_ms - kv_read_before_ms, kv_read_after_ms)


def moved_prefill_ms(
    linear_ms: Number, fixed_ms: Number, new_tokens_before: Number, new_tokens_after: Number
) -> Number:
    """The linear part of a prefill at another number of new tokens: ``f + (lin - f) * new'/new``."""
    return fixed_ms + (linear_ms - fixed_ms) * new_tokens_after / new_tokens_before
