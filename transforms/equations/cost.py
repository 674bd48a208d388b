"""What serving costs, from the price of a GPU-hour. Floats, NumPy arrays or Polars expressions alike."""

from transforms.numbers import Number

SECONDS_PER_HOUR = 3600.0


def mean_usd_per_gpu_hour(
    prefill_gpus: Number, prefill_usd_per_gpu_hour: Number, decode_gpus: Number, decode_usd_per_gpu_hour: Number
) -> Number:
    """Price of a GPU of a replica of two pools, each at its own price, in USD per GPU and hour."""
    usd_per_hour = prefill_gpus * prefill_usd_per_gpu_hour + decode_gpus * decode_usd_per_gpu_hour
    return usd_per_hour / (prefill_gpus + decode_gpus)


def usd_per_task(usd_per_gpu_hour: Number, tasks_per_s_per_gpu: Number) -> Number:
    """Price of the GPU time that a task takes, in USD; rates are of one GPU of the replica."""
    return usd_per_gpu_hour / (SECONDS_PER_HOUR * tasks_per_s_per_gpu)


def usd_per_million_tokens(usd_per_gpu_hour: Number, tokens_per_s_per_gpu: Number) -> Number:
    """Price of the GPU time in which 10^6 tokens are generated, in USD."""
    return 1e6 * usd_per_gpu_hour / (SECONDS_PER_HOUR * tokens_per_s_per_gpu)
