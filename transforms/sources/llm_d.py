"""llm-d's benchmark report, YAML or JSON, version 0.2 (and 0.2.1): one load of one stack a file.

Each statistic has its units beside it. The stack says shape, engine and GPU of each kind of worker; what the load
shared as a prefix is a setting of the load and not what the cache held. Read from llm-d-benchmark,
``llmdbenchmark/analysis/benchmark_report`` (``schema_v0_2.py``, ``schema_v0_2_components.py``, ``base.py``,
``native_to_br0_2.py``) of August 2026.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import yaml

from schemas.moments import as_text, parse_moment
from schemas.sentences import show
from transforms.sources.inference_perf import counts_tokens
from transforms.sources.json_text import first_record, looks_like_json
from transforms.sources.measured import as_serving_rows, runs_frame, statistic_said
from transforms.sources.record import Record, ratio
from transforms.sources.rows import FileRejectedError, InputFile, Reading
from transforms.sources.settings import setting_text
from transforms.sources.text import decode_text

NAME: Final = "llm-d"
MAX_YAML_BYTES: Final = 2**20
VERSIONS: Final = ("0.2", "0.2.1")

_FACTORS: Final[Mapping[str, float]] = {
    "s": 1e3, "ms": 1.0, "s/token": 1e3, "ms/token": 1.0, "count": 1.0, "tokens/s": 1.0, "queries/s": 1.0,
}  # fmt: skip
_AGGREGATE: Final = ("results", "request_performance", "aggregate")
_WORDS: Final = {"mean": "mean", "p50": "p50"}
#: Arguments of a server that its shape and its name say already.
_NO_FLAGS: Final = (
    "--model", "--served-model-name", "--port", "--host", "--tensor-parallel-size", "--pipeline-parallel-size",
    "--data-parallel-size", "--api-key",
)  # fmt: skip
_NO_LOADER: Final = yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader


def recognises(file: InputFile) -> bool:
    """A mapping with a version, a scenario and results by request performance."""
    # without the second bytes of UTF-16
    if b"request_performance" not in file.content[:MAX_YAML_BYTES].replace(b"\0", b""):
        return False
    report = _report(file.content)
    return isinstance(report, dict) and {"version", "results"} <= report.keys()


def read(file: InputFile) -> Reading:
    """The file's one row. Raises ``FileRejectedError``."""
    report = _report(file.content)
    if not isinstance(report, dict):
        raise FileRejectedError("the benchmark report is no mapping")
    version = str(report.get("version"))
    if version not in VERSIONS:
        raise FileRejectedError(f"a benchmark report of version {show(version)}; {' and '.join(VERSIONS)} are read")
    run = Record(report)
    row = _row(run, statistic_said(file.sidecar))
    return Reading(NAME, "llm-d benchmark report", version, as_serving_rows(runs_frame([row]), NAME, file.sidecar))


def _report(content: bytes) -> object:
    """The report's value; None where the file is neither YAML nor JSON or too large for a report."""
    if looks_like_json(content):
        return first_record(content)
    return None if len(content) > MAX_YAML_BYTES else _parsed(content)


@lru_cache(maxsize=4)
def _parsed(content: bytes) -> object:
    try:
        return yaml.load(decode_text(content), Loader=_NO_LOADER)
    except (yaml.YAMLError, FileRejectedError, ValueError, RecursionError):
        return None


def _row(run: Record, statistic: str) -> dict[str, object]:
    load = ("scenario", "load", "standardized")
    total, failed = run.number(*_AGGREGATE, "requests", "total"), run.number(*_AGGREGATE, "requests", "failures") or 0.0
    incomplete = run.number(*_AGGREGATE, "requests", "incomplete")
    if run.get(*load, "tool") == "aiperf" and failed:
        run.flag("failed_requests", "requests failed, and a report made from AIPerf counts their kinds only")

    def value(*path: str, word: str = "mean") -> float | None:
        """The statistic at this path in ms, tokens or 1/s."""
        number, units = run.number(*_AGGREGATE, *path, word), run.get(*_AGGREGATE, *path, "units")
        if number is None:
            return None
        if not isinstance(units, str) or units not in _FACTORS:
            run.flag("unknown_unit", f"{'.'.join(path)} is in {show(units)}, not one of {', '.join(_FACTORS)}")
            return None
        return number * _FACTORS[units]

    word = _WORDS[statistic]
    osl, ttft = value("requests", "output_length"), value("latency", "time_to_first_token", word=word)
    tpot, latency = (value("latency", name, word=word) for name in ("time_per_output_token", "request_latency"))
    by_inference_perf = run.get(*load, "tool") == "inference-perf"
    counted = not by_inference_perf or counts_tokens(tpot, ttft, latency, osl, statistic)
    columns = {
        "measured_at": _measured_at(run),
        "isl_tokens": value("requests", "input_length"),
        "osl_tokens": osl,
        "concurrency_reported": _slots(run, load),
        "ttft_ms": ttft,
        "tpot_ms": tpot if counted else None,
        "itl_ms": value("latency", "inter_token_latency", word=word) if counted else None,
        "request_latency_ms": latency,
        "latency_statistic": statistic,
        "requests_per_s": value("throughput", "request_rate"),
        "output_tokens_per_s": value("throughput", "output_token_rate"),
        "shares_prefix": isinstance(run.get(*load, "prefix"), dict) or run.get(*load, "multi_turn", "enabled") is True,
        "completed": None if total is None else total - failed - (incomplete or 0.0),
        "failed": failed,
        "incomplete": incomplete,
        **_stack(run),
    }
    return run.row(1, columns)


def _measured_at(run: Record) -> str | None:
    """When the run began; YAML has made a moment of the text already."""
    start = run.get("run", "time", "start")
    try:
        return as_text(parse_moment(start.isoformat() if hasattr(start, "isoformat") else str(start or "")))
    except ValueError:
        return None


def _slots(run: Record, load: Sequence[str]) -> float | None:
    """Slots of a closed loop: a number, and no rate beside it. ``.inf`` are requests that come as they are sent."""
    slots = run.get(*load, "concurrency")
    if run.get(*load, "rate_qps") is not None or slots in (float("inf"), "Infinity", None):
        return None
    return run.number(*load, "concurrency")


def _stack(run: Record) -> dict[str, object]:
    """Model, GPU, engine and shape of the engines of the stack, where they are all of one kind for each role."""
    stack = run.get("scenario", "stack")
    engines: dict[str, list[Record]] = {}
    for component in stack if isinstance(stack, list) else []:
        part = Record(component if isinstance(component, dict) else {})
        if part.get("standardized", "kind") == "inference_engine":
            engines.setdefault(str(part.get("standardized", "role")), []).append(part)
    alike = {role: parts[0] for role, parts in engines.items() if len({_shape_text(part) for part in parts}) == 1}
    if not engines:
        return {}
    if len(alike) < len(engines) or set(engines) - {"replica", "prefill", "decode"}:
        run.flag("unknown_shape", "the engines of the stack differ in shape: say the shape in source.yaml")
        return {}
    first = next(iter(alike.values()))
    said: dict[str, object] = {
        "model": first.text("standardized", "model", "name"),
        "backend": _engine(first.text("standardized", "tool")),
        "setting": setting_text(_flags(first)),
    }
    copies = {role: sum(_copies(part) for part in parts) for role, parts in engines.items()}
    if set(alike) == {"replica"}:
        shape = _dimensions(run, alike["replica"])
        gpu = {"hardware": first.text("standardized", "accelerator", "model")}
        return said | gpu | shape | {"replicas": copies["replica"]}
    if set(alike) != {"prefill", "decode"}:
        run.flag("unknown_shape", f"a stack of {' and '.join(sorted(alike))} engines: say the shape in source.yaml")
        return said
    for role, part in alike.items():
        said |= {f"{role}_{name}": size for name, size in _dimensions(run, part).items()}
        said |= {f"{role}_workers": copies[role]}
        said |= {f"{role}_hardware": part.text("standardized", "accelerator", "model")}
    return said | {"serving_mode": "disagg"}


def _engine(tool: str | None) -> str | None:
    """The engine of a tool's name: llm-d itself serves with vLLM."""
    return "vllm" if tool and tool.casefold() == "llm-d" else tool


def _shape_text(part: Record) -> str:
    return str(part.get("standardized", "accelerator", "model")) + str(_sizes(part))


def _sizes(part: Record) -> dict[str, float]:
    place = ("standardized", "accelerator", "parallelism")
    sizes = {name: part.number(*place, name) for name in ("tp", "pp", "dp", "ep")}
    return {name: 1.0 if size is None else size for name, size in sizes.items()}


def _copies(part: Record) -> float:
    replicas = part.number("standardized", "replicas")
    return 1.0 if replicas is None else replicas


def _dimensions(run: Record, part: Record) -> dict[str, float | None]:
    sizes = _sizes(part)
    gpus, count = sizes["tp"] * sizes["pp"] * sizes["dp"], part.number("standardized", "accelerator", "count")
    if count is not None and count != gpus:
        run.flag("gpus_do_not_fit_shape", f"an engine has {count:g} accelerators, its dimensions make {gpus:g}")
    ranks = sizes["tp"] * sizes["dp"]
    moe_tp = ratio(ranks, sizes["ep"])
    return {"tp": sizes["tp"], "pp": sizes["pp"], "dp": sizes["dp"], "moe_ep": sizes["ep"], "moe_tp": moe_tp}


def _flags(part: Record) -> dict[str, Any]:
    flags = part.get("native", "args")
    given = flags if isinstance(flags, Mapping) else {}
    return {name: value for name, value in given.items() if name not in _NO_FLAGS}
