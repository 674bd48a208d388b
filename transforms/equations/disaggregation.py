"""A disaggregated replica: two pools that hand over KV, their rates matched (model.md 5.2)."""

from transforms.numbers import Number, largest, smallest

#: What AIConfigurator 0.12.0 takes off each pool's rate, and puts on TTFT for queueing.
PREFILL_POOL_SHARE = 0.9
DECODE_POOL_SHARE = 0.92
TTFT_QUEUE_FACTOR = 1.8


def prefill_of_row_ms(ttft_ms: Number) -> Number:
    """Time of one prefill batch of a worker from a row's TTFT."""
    return ttft_ms / TTFT_QUEUE_FACTOR


def prefill_pool_rate(workers: Number, requests_per_batch: Number, prefill_ms: Number) -> Number:
    """Requests a second that the prefill workers can take."""
    return 1e3 * workers * requests_per_batch / prefill_ms


def decode_pool_rate(workers: Number, slots_per_worker: Number, tpot_ms: Number, osl_tokens: Number) -> Number:
    """Requests a second that the decode workers can finish; OSL - 1 steps each, at least one."""
    return 1e3 * workers * slots_per_worker / (tpot_ms * largest(osl_tokens - 1.0, 1.0))


def matched_rate(prefill_rate: Number, decode_rate: Number) -> Number:
    """Requests a second of the replica."""
    return smallest(PREFILL_POOL_SHARE * prefill_rate, DECODE_POOL_SHARE * decode_rate)


def handover_ms(kv_bytes: Number, links: Number, link_bytes_per_s: Number) -> Number:
    """Time to move KV from the prefill to the decode pool over all links of a worker."""
    return 1e3 * kv_bytes / (links * link_bytes_per_s)
