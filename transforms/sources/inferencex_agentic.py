"""Agent runs of InferenceX (``scenario_type`` agentic, replayed traces): measured, never standard rows.

Latencies are SECONDS; ``ttlt`` and ``e2el`` are the latency of a turn. Since 2026-07 the metrics lie in the
containers ``request_metrics`` and ``server_metrics``. Percentiles of interactivity mean different things in
different versions and are not read.
"""

from collections.abc import Mapping
from typing import Any, Final

from schemas.sidecar import Sidecar
from transforms.sources.inferencex_row import identity_of
from transforms.sources.record import Record, ratio

_STATISTICS: Final = {"mean": "mean", "p50": "median", "median": "median", "p90": "p90", "p99": "p99"}
_BLOCKS: Final = {
    ("latency", "ttft"): "ttft", ("latency", "e2el"): "e2el", ("latency", "itl"): "itl",
    ("tokens", "input"): "input_tokens", ("tokens", "output_actual"): "output_tokens_actual",
    ("tokens", "output_expected"): "output_tokens_expected",
}  # fmt: skip
_SCALARS: Final = {
    "input_tput_tps": ("request_metrics", "throughput", "input", "tokens_per_second"),
    "output_tput_tps": ("request_metrics", "throughput", "output", "tokens_per_second"),
    "total_tput_tps": ("request_metrics", "throughput", "total", "tokens_per_second"),
    "duration_seconds": ("request_metrics", "throughput", "duration_seconds"),
    "tput_per_gpu": ("request_metrics", "throughput", "per_gpu", "total_tput_tps"),
    "theoretical_cache_hit_rate": ("request_metrics", "cache", "theoretical_cache_hit_rate"),
    "server_gpu_cache_hit_rate": ("server_metrics", "cache", "gpu_cache_hit_rate"),
    "server_cpu_cache_hit_rate": ("server_metrics", "cache", "cpu_cache_hit_rate"),
}  # fmt: skip


def is_agentic(values: Mapping[str, Any]) -> bool:
    """Whether the row is an agent run."""
    kind = str(values.get("scenario_type") or values.get("benchmark_type") or "")
    return kind.startswith("agentic") or (values.get("isl") is None and "users" in values)


def flattened(values: dict[str, Any]) -> dict[str, Any]:
    """The row with the metrics of its containers under the keys that earlier versions gave them."""
    if not isinstance(values.get("request_metrics"), Mapping):
        return values
    record, flat = Record(values), dict(values)
    for (group, block), suffix in _BLOCKS.items():
        for statistic, word in _STATISTICS.items():
            value = record.get("request_metrics", group, block, statistic)
            if value is not None:
                flat.setdefault(f"{word}_{suffix}", value)
    for key, path in _SCALARS.items():
        value = record.get(*path)
        if value is not None:
            flat.setdefault(key, value)
    return flat


def agentic_row(values: dict[str, Any], number: int, sidecar: Sidecar | None) -> dict[str, object]:
    """The row in the shape of ``AGENTIC_SCHEMA``."""
    run = Record(values)
    identity = identity_of(run, sidecar)
    gpus = None if identity.shape is None else identity.shape.gpus
    total, successful = run.number("num_requests_total"), run.number("num_requests_successful")
    duration = run.number("duration_seconds")
    rates = {kind: run.number(f"{kind}_tput_tps") for kind in ("input", "output", "total")}
    _check(run, gpus, rates, total, successful)
    sessions = run.number("users")
    columns: dict[str, object] = {
        **{name: identity.columns.get(name) for name in _DEPLOYMENT},
        "precision_name": identity.columns["precision_name"],
        **{name: identity.beside[name] for name in ("model_alias", "measured_at", "backend_name")},
        "source": "inferencex",
        "hardware_name": identity.columns["hardware"],
        "model_name": identity.columns["model"],
        "gpus_per_replica": gpus,
        "draft_tokens": None if identity.beside["drafted"] else 0.0,
        "sessions": run.number("conc") if sessions is None else sessions,
        "offload_mode": _offload(run),
        "requests_total": total,
        "requests_successful": successful,
        "failed_fraction": None if total is None or successful is None else ratio(total - successful, total),
        "duration_s": duration,
        "requests_per_s": ratio(successful, duration),
        "mean_input_tokens": run.number("mean_input_tokens"),
        "mean_output_tokens": run.number("mean_output_tokens_actual"),
        "expected_output_tokens": run.number("mean_output_tokens_expected"),
        **{name: run.number(name) for name in _HIT_RATES},
        **{f"{kind}_tokens_per_s": rate for kind, rate in rates.items()},
        **{f"{kind}_tokens_per_s_per_gpu": ratio(rate, gpus) for kind, rate in rates.items()},
        **_latencies_ms(run, "ttft", ("ttft",)),
        **_latencies_ms(run, "turn_latency", ("ttlt", "e2el")),
        **_latencies_ms(run, "itl", ("itl",)),
    }
    return run.row(number, columns, run.scalars)


_DEPLOYMENT: Final = (
    "backend", "backend_version", "serving_mode", "tp", "pp", "dp", "cp", "moe_tp", "moe_ep",
    "prefill_workers", "prefill_tp", "prefill_dp", "decode_workers", "decode_tp", "decode_dp",
)  # fmt: skip
_HIT_RATES: Final = (
    "server_gpu_cache_hit_rate", "server_cpu_cache_hit_rate", "theoretical_cache_hit_rate",
    "theoretical_infinite_cache_hit_rate",
)  # fmt: skip


def _check(
    run: Record, gpus: float | None, rates: Mapping[str, float | None], total: float | None, successful: float | None
) -> None:
    """Rates against their sum, GPUs against the rate per GPU, and a run that answered nothing."""
    if not successful:
        run.flag("failed_requests", f"{successful or 0:g} of {total or 0:g} requests were answered: there is no result")
    if total is not None and successful is not None and successful > total:
        run.flag("failed_requests", f"{successful:g} of {total:g} requests were answered: more than were sent")
    whole, kinds = rates["total"], (rates["input"], rates["output"])
    for kind in ("input", "output", "total"):
        if rates[kind] is None:
            run.flag("missing_value", f"{kind}_tput_tps is not given")
    if whole and None not in kinds and not abs(sum(kinds) / whole - 1.0) <= 0.01:  # type: ignore[arg-type]
        run.flag("throughput_does_not_fit", f"input and output make {sum(kinds):g} tokens/s, the total is {whole:g}")  # type: ignore[arg-type]
    counted = ratio(whole, run.number("tput_per_gpu"))
    if gpus is not None and counted is not None and not abs(counted / gpus - 1.0) <= 0.01:
        run.flag("gpus_do_not_fit_shape", f"{gpus:g} GPUs by the shape, {counted:g} by the throughput on each")


def _offload(run: Record) -> str | None:
    """``on`` or ``off``; newer versions name what holds the offloaded cache, or ``none``."""
    for name in ("offload_mode", "kv_offloading", "offloading"):
        word = (run.text(name) or "").casefold()
        if word:
            return "off" if word in ("none", "off", "false") else "on"
    return None


def _latencies_ms(run: Record, name: str, keys: tuple[str, ...]) -> dict[str, object]:
    """Mean and percentiles by the first of the keys that the row has."""
    found: dict[str, object] = {}
    for word, suffix in (("mean", ""), ("median", "_p50"), ("p90", "_p90"), ("p99", "_p99")):
        values = [run.number(f"{word}_{key}") for key in keys]
        value = next((value for value in values if value is not None), None)
        found[f"{name}{suffix}_ms"] = None if value is None else 1e3 * value
    return found
