"""GenAI-Perf: ``profile_export_genai_perf.csv`` and ``.json``, one run a file.

A run without ``--streaming`` has the whole latency as its time to first token in JSON, and none in CSV.
The CSV does not say how many requests were kept in flight. ``backend`` is an argument with a default,
not what served. Read from perf_analyzer's ``genai-perf/genai_perf/export_data`` and ``metrics``.
"""

from typing import Final

from transforms.sources.json_text import first_record, looks_like_json, read_json
from transforms.sources.measured import as_serving_rows, runs_frame, statistic_said
from transforms.sources.perf_metrics import blocks_of, exact_twin, figures_of, objects_of, raw_of
from transforms.sources.record import Record, as_json
from transforms.sources.rows import FileRejectedError, InputFile, Reading
from transforms.sources.text import header_of

NAME: Final = "genai-perf"

_HEADER: Final = ["Metric", "avg", "min", "max", "p99", "p95", "p90", "p75", "p50", "p25"]
_RAW_KEYS: Final = {"experiments", "service_kind", "endpoint"}


def recognises(file: InputFile) -> bool:
    """A JSON of metrics with the tool's arguments, its raw export, or a CSV with its header."""
    if not looks_like_json(file.content):
        return header_of(file.content) == _HEADER
    record = first_record(file.content)
    return ("input_config" in record and "request_latency" in objects_of(record)) or record.keys() >= _RAW_KEYS


def read(file: InputFile) -> Reading:
    """The file's one row. Raises ``FileRejectedError``."""
    file = exact_twin(file)
    if looks_like_json(file.content):
        documents = read_json(file.content).documents
        values = documents[0].value
        if len(documents) > 1 or not isinstance(values, dict) or values.keys() >= _RAW_KEYS:
            raise FileRejectedError("the single requests of a GenAI-Perf run; give its summary, *_genai_perf.json")
        run, metrics = Record(values), objects_of(values)
    else:
        run, metrics = Record({}), blocks_of(file.content)
    if _first(run, ("streaming",), ("endpoint", "streaming")) is False:
        run.flag("not_streamed", "the run did not stream: it has no time to the first token; run it with --streaming")
    figures = figures_of(metrics, run, statistic_said(file.sidecar))
    columns = {**figures, "model": _model(run), "concurrency_reported": _slots(run)}
    row = run.row(1, columns, as_json(raw_of(metrics)))
    version = file.sidecar.tool_version if file.sidecar else None
    return Reading(NAME, "GenAI-Perf", version, as_serving_rows(runs_frame([row]), NAME, file.sidecar))


def _model(run: Record) -> str | None:
    """The model, where the run loaded exactly one."""
    names = _first(run, ("model",), ("model_names",))
    if isinstance(names, list) and len(names) == 1 and isinstance(names[0], str):
        return Record({"model": names[0]}).text("model")
    return None


def _slots(run: Record) -> float | None:
    """Slots of a closed loop: a concurrency, and no request rate beside it."""
    stimulus = ("perf_analyzer", "stimulus")
    if _first(run, ("request_rate",), (*stimulus, "request_rate")) is not None:
        return None
    nested = run.number("input_config", *stimulus, "concurrency")
    return run.number("input_config", "concurrency") if nested is None else nested


def _first(run: Record, *paths: tuple[str, ...]) -> object:
    """The first of these arguments that is given; releases keep them in different places."""
    return next((value for path in paths if (value := run.get("input_config", *path)) is not None), None)
