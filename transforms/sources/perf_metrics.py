"""What AIPerf and its forerunner GenAI-Perf share: named metrics, each with its unit.

CSV files are blocks that a blank line parts: statistics of the requests (``Metric,avg,...``), single
values (``Metric,Value``), measurements of the GPUs. The unit stands in the metric's name. JSON files
have one object a metric, with ``unit`` and ``avg``. Means are of completed requests; inter-token
latency is (latency - TTFT) / (output tokens - 1) of each request.
"""

import csv
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Final

from schemas.sentences import show
from transforms.sources.json_text import first_record, looks_like_json
from transforms.sources.record import Record, ratio, to_number
from transforms.sources.rows import FileRejectedError, InputFile
from transforms.sources.text import decode_text

_NAMED: Final = re.compile(r"(?P<name>.*?)\s*(?:\((?P<unit>[^()]*)\))?")
#: As these tools print numbers: two decimals, thousands with commas in GenAI-Perf.
_NUMBER: Final = re.compile(r"-?(\d+(\.\d+)?|\d{1,3}(,\d{3})+\.\d+)")

_TO_MS: Final = {"ms": 1.0, "s": 1e3, "sec": 1e3, "us": 1e-3, "ns": 1e-6}
_TO_S: Final = {"s": 1.0, "sec": 1.0, "ms": 1e-3}
_TOKENS: Final = {"tokens": 1.0, "": 1.0}
_REQUESTS: Final = {"requests": 1.0, "count": 1.0, "": 1.0}
_REQUESTS_PER_S: Final = {"requests/sec": 1.0, "per sec": 1.0}
_TOKENS_PER_S: Final = {"tokens/sec": 1.0, "per sec": 1.0}
_RATIOS: Final = {"ratio": 1.0, "": 1.0}
#: Metric -> factors of the units that it can be in.
_UNITS: Final[Mapping[str, Mapping[str, float]]] = {
    "time_to_first_token": _TO_MS,
    "inter_token_latency": _TO_MS,
    "inter_chunk_latency": _TO_MS,
    "request_latency": _TO_MS,
    "input_sequence_length": _TOKENS,
    "output_sequence_length": _TOKENS,
    "request_throughput": _REQUESTS_PER_S,
    "output_token_throughput": _TOKENS_PER_S,
    "request_count": _REQUESTS,
    "error_request_count": _REQUESTS,
    "cancelled_request_count": _REQUESTS,
    "total_usage_prompt_cache_read_tokens": _TOKENS,
    "usage_prompt_cache_read_tokens": _TOKENS,
    "spec_decode_acceptance_length": _RATIOS,
    "spec_decode_token_weighted_acceptance_length": _RATIOS,
    "total_spec_decode_steps": _REQUESTS,
    "total_draft_tokens": _TOKENS,
    "total_accepted_draft_tokens": _TOKENS,
    "benchmark_duration": _TO_S,
}


#: Headers that are not the metric's own name in words, as the CSV has them.
_TAGS: Final = {
    "acceptance_length": "spec_decode_acceptance_length",
    "token-weighted_acceptance_length": "spec_decode_token_weighted_acceptance_length",
}


@dataclass(frozen=True)
class Metric:
    """One metric as the file has it, and its unit; ``printed`` in a CSV, where numbers are text.

    ``value`` is the mean, or the only value; ``median`` is None where the file has none.
    """

    value: object
    unit: str
    printed: bool = False
    median: object = None

    @property
    def number(self) -> float | None:
        """The mean as a number."""
        return self.as_number(self.value)

    def as_number(self, value: object) -> float | None:
        """A value of the metric as a number; text is one as these tools print them."""
        if self.printed and isinstance(value, str) and _NUMBER.fullmatch(value):
            value = float(value.replace(",", ""))
        return to_number(value)


def blocks_of(content: bytes) -> dict[str, Metric]:
    """The metrics of a CSV of blocks, by name in lower case. Raises ``FileRejectedError``."""
    metrics: dict[str, Metric] = {}
    header: list[str] = []
    reader = csv.reader(io.StringIO(decode_text(content), newline=""), strict=True)
    try:
        for cells in reader:
            row = [cell.strip() for cell in cells]
            if not any(row):
                header = []
            elif not header:
                header = row
            elif header[0] == "Metric" and len(header) > 1 and header[1] in ("avg", "Value"):
                if len(row) != len(header):
                    raise FileRejectedError(f"line {reader.line_num} has {len(row)} cells, its block {len(header)}")
                name, unit = _parted(row[0])
                name = _TAGS.get(name, name)
                if name in metrics:
                    raise FileRejectedError(f"line {reader.line_num} gives {row[0]!r} a second time")
                median = row[header.index("p50")] if "p50" in header else ""
                metrics[name] = Metric(row[1] or None, unit, printed=True, median=median or None)
    except csv.Error as error:
        raise FileRejectedError(f"line {reader.line_num} is not valid CSV: {error}") from error
    return metrics


def objects_of(values: Mapping[str, object]) -> dict[str, Metric]:
    """The metrics of a JSON file: its objects that have a unit and a mean, in early AIPerf those under ``records``."""
    found: dict[str, Metric] = {}
    records = values.get("records")
    for tag, value in (records if isinstance(records, dict) else values).items():
        if isinstance(value, dict) and "unit" in value and "avg" in value:
            header = value.get("header")
            name = _parted(header)[0] if isinstance(header, str) and header else tag
            found[_TAGS.get(name, name)] = Metric(value["avg"], str(value["unit"]), median=value.get("p50"))
    return found


def exact_twin(file: InputFile) -> InputFile:
    """The JSON of the same name beside a CSV, if it holds the same run with all its digits; else the file itself.

    Both tools write both: read as its twin, a CSV says what the JSON says, and counts as its duplicate.
    """
    twin = file.beside.get(f"{PurePath(file.path).stem}.json")
    if twin is None or looks_like_json(file.content):
        return file
    printed, exact = blocks_of(file.content), objects_of(first_record(twin))
    both = _UNITS.keys() & printed.keys() & exact.keys()
    pairs = [(printed[name].number, exact[name].number) for name in both]
    return replace(file, content=twin) if pairs and all(_is_rounded(*pair) for pair in pairs) else file


def _is_rounded(printed: float | None, exact: float | None) -> bool:
    """Whether the first is the second with two decimals."""
    return printed is not None and exact is not None and abs(printed - exact) <= 0.005 + 1e-9 * abs(exact)


def figures_of(metrics: Mapping[str, Metric], run: Record, statistic: str) -> dict[str, object]:
    """The columns of a run, its latencies of this statistic; problems are flagged on ``run``."""
    latencies = {name for name, units in _UNITS.items() if units is _TO_MS}
    values = {
        name: _converted(metrics.get(name), name, run, median=statistic == "p50" and name in latencies)
        for name in _UNITS
    }
    failed = (values["error_request_count"] or 0.0) + (values["cancelled_request_count"] or 0.0)
    rate, tokens, osl = (values[n] for n in ("request_throughput", "output_token_throughput", "output_sequence_length"))
    return {
        "ttft_ms": values["time_to_first_token"],
        "tpot_ms": values["inter_token_latency"],
        "itl_ms": values["inter_chunk_latency"],
        "request_latency_ms": values["request_latency"],
        "isl_tokens": values["input_sequence_length"],
        "osl_tokens": osl,
        # of two rates printed with two decimals the larger number has more digits
        "requests_per_s": ratio(tokens, osl) or rate if _is_printed(metrics) else rate,
        "output_tokens_per_s": tokens,
        "completed": values["request_count"],
        "failed": failed,
        "duration_s": values["benchmark_duration"],
        "latency_statistic": statistic,
        "prefix_tokens": _cached(values),
        **_drafts(values),
    }


def _cached(values: Mapping[str, float | None]) -> float | None:
    """Mean part of an input that the server read from its cache, as its answers say (``usage``)."""
    total, count = values["total_usage_prompt_cache_read_tokens"], values["request_count"]
    return values["usage_prompt_cache_read_tokens"] if total is None else ratio(total, count)


def _drafts(values: Mapping[str, float | None]) -> dict[str, object]:
    """Tokens drafted and tokens that come out, in a verified step: of all steps alike where the file says so."""
    steps = values["total_spec_decode_steps"]
    drafted, accepted = ratio(values["total_draft_tokens"], steps), ratio(values["total_accepted_draft_tokens"], steps)
    yielded = values["spec_decode_token_weighted_acceptance_length"]
    if yielded is None and accepted is not None:
        yielded = 1.0 + accepted
    if yielded is None:
        yielded = values["spec_decode_acceptance_length"]
    return {"draft_tokens": None if drafted is None else float(round(drafted)), "accepted_tokens": yielded}


def raw_of(metrics: Mapping[str, Metric]) -> dict[str, object]:
    """What the metrics say, for the account of a row."""
    return {name: metric.value for name, metric in metrics.items() if name in _UNITS}


def _is_printed(metrics: Mapping[str, Metric]) -> bool:
    return any(metric.printed for metric in metrics.values())


def _converted(metric: Metric | None, name: str, run: Record, median: bool) -> float | None:
    value = None if metric is None else metric.median if median else metric.value
    if metric is None or value is None:
        return None
    factor = _UNITS[name].get(metric.unit)
    if factor is None:
        known = ", ".join(repr(unit) for unit in _UNITS[name])
        run.flag("unknown_unit", f"{name} is in {metric.unit!r}, not one of {known}")
        return None
    number = metric.as_number(value)
    if number is None:
        run.flag("not_a_number", f"{name} is {show(value)}, not a number as this tool prints them")
        return None
    return number * factor


def _parted(header: str) -> tuple[str, str]:
    """Name in lower case with underscores, and unit: ``Time to First Token (ms)``."""
    match = _NAMED.fullmatch(header)
    name, unit = (match["name"], match["unit"] or "") if match else (header, "")
    return "_".join(name.lower().split()), unit
