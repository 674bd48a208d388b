"""AIPerf: ``profile_export_aiperf.csv`` and ``.json``, one run a file.

Output length counts reasoning tokens too. Until 0.2 the JSON keeps its metrics under ``records``. The
file of single requests (``profile_export.jsonl``) is a run of agents where sessions have several turns; without, it is
refused by name, as are time slices and aggregates of several runs. Read from AIPerf's ``src/aiperf/exporters`` and
``src/aiperf/metrics/types``.
"""

from collections.abc import Mapping
from typing import Final

from schemas.moments import as_text, parse_moment
from transforms.sources.agent_turns import agent_run_reading
from transforms.sources.aiperf_turns import is_request, is_run_of_turns, turns_of
from transforms.sources.json_text import first_record, looks_like_json, read_json
from transforms.sources.measured import as_serving_rows, runs_frame, statistic_said
from transforms.sources.perf_metrics import Metric, blocks_of, exact_twin, figures_of, objects_of, raw_of
from transforms.sources.record import Record, as_json, to_number
from transforms.sources.rows import FileRejectedError, InputFile, Reading
from transforms.sources.text import header_of

NAME: Final = "aiperf"

_SUMMARY: Final = "give its summary, profile_export_aiperf.json or .csv"


def recognises(file: InputFile) -> bool:
    """A JSON of this tool, or a CSV whose first block has the deviation, which GenAI-Perf leaves out."""
    if looks_like_json(file.content):
        record = first_record(file.content)
        return "aiperf_version" in record or _is_early(record) or is_request(record)
    header = header_of(file.content)
    return header[:2] == ["Metric", "avg"] and "std" in header


def read(file: InputFile) -> Reading:
    """The file's one row. Raises ``FileRejectedError``."""
    file = exact_twin(file)
    if looks_like_json(file.content):
        documents = read_json(file.content).documents
        if is_run_of_turns([document.value for document in documents]):
            turns = turns_of([document.value for document in documents])
            return agent_run_reading(turns, NAME, "AIPerf", file.sidecar)
        values = _summary(file)
        metrics = objects_of(values)
    else:
        values, metrics = {}, blocks_of(file.content)
    if "request_latency" not in metrics:
        raise FileRejectedError(f"an AIPerf file without request latencies; {_SUMMARY}")
    run = Record(values)
    row = _row(run, metrics, statistic_said(file.sidecar))
    version = run.text("aiperf_version") or (file.sidecar.tool_version if file.sidecar else None)
    return Reading(NAME, "AIPerf", version, as_serving_rows(runs_frame([row]), NAME, file.sidecar))


def _summary(file: InputFile) -> Mapping[str, object]:
    documents = read_json(file.content).documents
    values = documents[0].value
    if not isinstance(values, dict) or is_request(values):
        raise FileRejectedError(f"the single requests of an AIPerf run; {_SUMMARY}")
    if len(documents) > 1:
        raise FileRejectedError(f"{len(documents)} records where AIPerf writes one; {_SUMMARY} of each run")
    if "timeslices" in values or "aggregation_type" in _object(values, "metadata"):
        raise FileRejectedError(f"time slices or an aggregate of several AIPerf runs; {_SUMMARY} of each run")
    return values


def _row(run: Record, metrics: Mapping[str, Metric], statistic: str) -> dict[str, object]:
    if run.get("was_cancelled") is True:
        run.flag("cancelled_run", "the run was cancelled before its end")
    if run.get("input_config", "endpoint", "streaming") is False:
        run.flag("not_streamed", "the run did not stream: it has no time to the first token; run it with --streaming")
    models = _models(run)
    if len(models) > 1:
        run.flag(
            "several_models", f"the run loaded {len(models)} models ({', '.join(models)}): its means are of no one"
        )
    figures = figures_of(metrics, run, statistic)
    columns = {
        **figures,
        "failed": max(to_number(figures["failed"]) or 0.0, _errors(run)),
        "ramp_s": _ramp_s(run),
        "shares_prefix": _shares_prefix(run),
        "measured_at": _measured_at(run),
        "model": models[0] if models else None,
        "concurrency_reported": _slots(run),
    }
    return run.row(1, columns, as_json(raw_of(metrics)))


def _measured_at(run: Record) -> str | None:
    """When the run began; without a zone it is taken for UTC."""
    try:
        return as_text(parse_moment(run.text("start_time") or ""))
    except ValueError:
        return None


def _models(run: Record) -> list[str]:
    """The models that the run loaded, each once."""
    names = run.get("input_config", "endpoint", "model_names")
    items = run.get("input_config", "models", "items")
    if isinstance(items, list):
        names = [item.get("name") for item in items if isinstance(item, dict)]
    given = names if isinstance(names, list) else []
    return list(dict.fromkeys(text for name in given if (text := Record({"name": name}).text("name")) is not None))


def _errors(run: Record) -> float:
    """Requests that came to nothing, by the summary of errors."""
    errors = run.get("error_summary")
    if not isinstance(errors, list):
        return 0.0
    return sum(to_number(error.get("count")) or 1.0 for error in errors if isinstance(error, dict))


def _phase(run: Record) -> Record | None:
    """The phase that was measured, of a release that has phases; empty where there are several."""
    phases = run.get("input_config", "phases")
    if not isinstance(phases, list):
        return None
    loads = [phase for phase in phases if isinstance(phase, dict) and phase.get("exclude_from_results") is not True]
    return Record(loads[0]) if len(loads) == 1 else Record({})


def _ramp_s(run: Record) -> float | None:
    """Seconds in which the load was rising; a warm-up is a phase of its own and not measured."""
    phase = _phase(run)
    if phase is not None:
        ramps = [phase.number(name, "duration") for name in ("concurrency_ramp", "prefill_ramp", "rate_ramp")]
    else:
        names = ("concurrency", "prefill_concurrency", "request_rate")
        ramps = [run.number("input_config", "loadgen", f"{name}_ramp_duration") for name in names]
    return max((ramp for ramp in ramps if ramp is not None), default=None)


def _shares_prefix(run: Record) -> bool:
    """Whether prompts begin alike: by a pool of prefixes, or because a turn repeats what went before it."""
    prefix = run.number("input_config", "input", "prompt", "prefix_prompt", "length")
    turns = run.number("input_config", "input", "conversation", "turn", "mean")
    return bool(prefix) or (turns or 1.0) > 1.0


def _slots(run: Record) -> float | None:
    """Slots of a closed loop: a concurrency, and no request rate beside it."""
    phase = _phase(run)
    if phase is not None:
        return phase.number("concurrency") if phase.get("type") == "concurrency" else None
    if run.get("input_config", "loadgen", "request_rate") is not None:
        return None
    return run.number("input_config", "loadgen", "concurrency")


def _is_early(record: Mapping[str, object]) -> bool:
    return {"records", "input_config", "was_cancelled"} <= record.keys()


def _object(values: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = values.get(key)
    return value if isinstance(value, dict) else {}
