"""GuideLLM's ``benchmarks.csv``: three header lines, one row for each benchmark.

A column is named by group, field and statistic: ``Request Latency``, ``Successful Sec``, ``Mean``. Streams stand in
the profile of the whole run only: a run of one strategy has its own. Read from GuideLLM 0.4 to 0.7.3,
``src/guidellm/benchmark/outputs/csv.py``; the two header lines of releases before leave out what a row needs.
"""

import csv
import io
import json
from collections.abc import Mapping
from typing import Final

from transforms.sources.measured import as_serving_rows, runs_frame, statistic_said
from transforms.sources.record import Record, as_json, ratio
from transforms.sources.rows import FileRejectedError, InputFile, Reading
from transforms.sources.text import MAX_FIELD_CHARACTERS, decode_text, first_rows

NAME: Final = "guidellm"

Key = tuple[str, str, str]
_WORDS: Final = {"mean": "Mean", "p50": "Median"}
_STRATEGY: Final = ("Benchmark", "Strategy", "")
_JSON: Final = "give the JSON report of the same run (benchmarks.json)"


def recognises(file: InputFile) -> bool:
    """A CSV whose first header line has the group ``Benchmark``, and its second that group's ``Strategy``."""
    rows = first_rows(file.content, 2)
    return len(rows) == 2 and "Benchmark" in rows[0] and {"Type", "Strategy"} <= set(rows[1])


def read(file: InputFile) -> Reading:
    """One row for each benchmark. Raises ``FileRejectedError``."""
    try:
        lines = list(csv.reader(io.StringIO(decode_text(file.content), newline=""), strict=True))
    except csv.Error as error:
        raise FileRejectedError(f"the file is not valid CSV: {error}") from error
    lines = [line for line in lines if any(cell.strip() for cell in line)]
    if len(lines) < 4 or "Mean" not in lines[2]:
        raise FileRejectedError(f"a CSV of GuideLLM before 0.4, which leaves out what a row needs; {_JSON}")
    keys = [_key(cells) for cells in zip(*(line + [""] * len(lines[0]) for line in lines[:3]), strict=False)]
    keys = keys[: len(lines[0])]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise FileRejectedError(f"the column {' / '.join(twice[0])} stands in the file twice; {_JSON}")
    said = statistic_said(file.sidecar)
    rows = [_row(line, keys, number, said) for number, line in enumerate(lines[3:], 1)]
    said_version = file.sidecar.tool_version if file.sidecar else None
    version = _version(dict(zip(keys, lines[3], strict=False))) or said_version
    return Reading(NAME, "GuideLLM", version, as_serving_rows(runs_frame(rows), NAME, file.sidecar))


def _key(cells: tuple[str, ...]) -> Key:
    group, field, statistic = (cell.strip() for cell in cells)
    return group, field, statistic


def _row(line: list[str], keys: list[Key], number: int, statistic: str) -> dict[str, object]:
    cells = {" / ".join(key).rstrip(" /"): _value(cell) for key, cell in zip(keys, line, strict=False)}
    run = Record(cells)
    if len(line) != len(keys):
        run.flag("wrong_number_of_cells", f"the row has {len(line)} cells, the header {len(keys)}")
    word = _WORDS[statistic]

    def figure(group: str, field: str, unit: str = "Mean") -> float | None:
        return run.number(f"{group} / {field} / {unit}")

    completed = run.number("Request Counts / Successful")
    duration = run.number("Timings / Duration / Sec")
    latency = figure("Request Latency", "Successful Sec", word)
    profile = _json_of(cells.get("Run Info / Profile"))
    kind = run.text("Benchmark / Strategy")
    rampup = profile.get("rampup_duration")
    warmup = run.number("Timings / Warmup / Sec") or 0.0
    return run.row(
        number,
        {
            "model": _model(cells),
            "isl_tokens": figure("Token Metrics", "Successful Input Tokens"),
            "osl_tokens": figure("Token Metrics", "Successful Output Tokens"),
            "concurrency_reported": _slots(kind, profile),
            "ttft_ms": figure("Time to First Token", "Successful ms", word),
            "tpot_ms": figure("Inter Token Latency", "Successful ms", word),
            "itl_ms": figure("Inter Token Latency", "Successful ms", word),
            "request_latency_ms": None if latency is None else 1e3 * latency,
            "latency_statistic": statistic,
            "requests_per_s": ratio(completed, duration),
            "completed": completed,
            "failed": run.number("Request Counts / Errored") or 0.0,
            "incomplete": run.number("Request Counts / Incomplete"),
            "ramp_s": max(float(rampup) - warmup, 0.0) if isinstance(rampup, int | float) else None,
            "duration_s": duration,
        },
        as_json(cells)[:MAX_FIELD_CHARACTERS],
    )


def _value(cell: str) -> object:
    """The cell as a number where it is one."""
    try:
        number = float(cell)
    except ValueError:
        return cell or None
    return number


def _json_of(value: object) -> Mapping[str, object]:
    try:
        found = json.loads(value) if isinstance(value, str) else None
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {}


def _model(cells: Mapping[str, object]) -> str | None:
    model = _json_of(cells.get("Run Info / Backend")).get("model")
    return model if isinstance(model, str) else None


def _version(cells: Mapping[Key, str]) -> str | None:
    version = _json_of(cells.get(("Runtime Info", "Metadata", ""))).get("guidellm_version")
    return version if isinstance(version, str) else None


def _slots(kind: str | None, profile: Mapping[str, object]) -> float | None:
    """Streams of a closed loop, where the profile has one number of them: of several, none says which is whose."""
    if kind == "synchronous":
        return 1.0
    streams = profile.get("streams")
    only = streams[0] if isinstance(streams, list) and len(streams) == 1 else streams
    return float(only) if kind == "concurrent" and isinstance(only, int | float) else None
