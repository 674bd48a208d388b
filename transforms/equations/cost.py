"""What serving costs, from the price of a GPU-hour. Floats, NumPy arrays or Polars expressions alike."""

from transforms.numbers import Number

SECONDS_PER_HOUR = 3600.0
#: Hours of an average month.
HOURS_PER_MONTH = 730.0


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


def kwh_per_task(watts_per_gpu: Number, tasks_per_hour_per_gpu: Number) -> Number:
    """Energy that a task takes where GPUs draw so many watts each, in kWh. 700 W and 350 tasks an hour: 0.002 kWh."""
    return watts_per_gpu / 1e3 / tasks_per_hour_per_gpu


def tasks_per_hour_per_mw(watts_per_gpu: Number, tasks_per_hour_per_gpu: Number) -> Number:
    """Tasks an hour of as many GPUs as draw a megawatt. 700 W and 350 tasks an hour: 500,000."""
    return 1e6 * tasks_per_hour_per_gpu / watts_per_gpu
