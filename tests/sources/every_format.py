"""A small good file of each format that is read, and copies of it in which one value after the other is spoiled."""

import csv
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl
import yaml

from tests.sources import results
from tests.sources.mutations import leaves, parent_of
from tests.sources.test_agent_turns import as_aiperf, as_vllm, turns
from tests.sources.test_aiconfigurator import AGG_ROW, DISAGG_ROW, MTP_TEXT
from tests.sources.test_generic import COLUMNS, ROW
from tests.sources.test_inferencex import AGENTIC_ROW, API_ROW, METRICS, api
from tests.sources.test_inferencex import DISAGG_ROW as API_DISAGG_ROW
from tests.transforms.factory import csv_text

#: What every number and every word is replaced by.
BAD_VALUES: tuple[Any, ...] = (0, -1, 1e-300, 1e300, "", "text")
CACHED = f"{results.FACTS}prefix_tokens: 600\n"
_WORDS = {"gpu": "h100", "model": "llama-3-1-70b", "weights": "fp8", "kv": "bf16", "engine": "vllm", "tp": 8,
          "drafts": 0, "accepted": 1.0, "version": "0.15", "cp": 1}  # fmt: skip
_GENERIC = COLUMNS + (
    "  hardware: {column: gpu}\n  model: {column: model}\n  weight_dtype: {column: weights}\n  kv_dtype: {column: kv}\n"
    "  backend: {column: engine}\n  tp: {column: tp}\n  draft_tokens: {column: drafts}\n"
    "  accepted_tokens: {column: accepted}\n  backend_version: {column: version}\n  cp: {column: cp}\n"
)


@dataclass(frozen=True)
class Example:
    """A good file; ``spoil`` gives copies of it with how many values are spoiled in each."""

    content: bytes
    says: str | None
    spoil: Callable[[bytes], Iterator[tuple[int, bytes]]]
    is_read: bool = True


def spoiled_rows(content: bytes, row: int = 1) -> Iterator[tuple[int, bytes]]:
    """A CSV: a row for each cell of a row and each bad value of it, in one file."""
    table = list(csv.reader(io.StringIO(content.decode(), newline="")))
    cells = table[row]
    spoiled = [[*cells[:at], str(value), *cells[at + 1 :]] for at in range(len(cells)) for value in BAD_VALUES]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([*table[: row + 1], *spoiled])
    yield len(spoiled), text.getvalue().encode()


def spoiled_cells(content: bytes) -> Iterator[tuple[int, bytes]]:
    """A CSV that is one record: a file for each cell and each bad value."""
    table = list(csv.reader(io.StringIO(content.decode(), newline="")))
    for line, cells in enumerate(table):
        for at in range(min(len(cells), 3)):
            for value in BAD_VALUES:
                text = io.StringIO()
                spoiled = [*cells[:at], str(value), *cells[at + 1 :]]
                csv.writer(text, lineterminator="\n").writerows([*table[:line], spoiled, *table[line + 1 :]])
                yield 1, text.getvalue().encode()


def spoiled_records(content: bytes) -> Iterator[tuple[int, bytes]]:
    """A list of records: a record for each value of each of them and each bad value, in one file."""
    records = json.loads(content)
    spoiled = [each for record in records for each in _spoiled_values(record)]
    yield len(spoiled), json.dumps([records[0], *spoiled]).encode()


def spoiled_lines(content: bytes) -> Iterator[tuple[int, bytes]]:
    """A record that may stand in a line: a line for each value of it and each bad value, in one file."""
    record = json.loads(content)
    spoiled = _spoiled_values(record)
    yield len(spoiled), "\n".join(json.dumps(each) for each in (record, *spoiled)).encode()


def spoiled_documents(content: bytes) -> Iterator[tuple[int, bytes]]:
    """One JSON document: a file for each value of it and each bad value."""
    for document in _spoiled_values(json.loads(content)):
        yield 1, json.dumps(document).encode()


def spoiled_yaml(content: bytes) -> Iterator[tuple[int, bytes]]:
    """One YAML document, as ``spoiled_documents``."""
    for document in _spoiled_values(yaml.safe_load(content)):
        yield 1, yaml.dump(document, Dumper=yaml.CSafeDumper).encode()


def spoiled_requests(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Requests of one run: a file for each figure, spoiled in the first request and in all of them."""
    requests = json.loads(content)
    for path in leaves(requests[0]):
        for value in BAD_VALUES:
            for spoiled in (1, len(requests)):
                changed = json.loads(content)
                for request in changed[:spoiled]:
                    parent_of(request, path)[path[-1]] = value
                yield 1, json.dumps(changed).encode()


def spoiled_parquet(content: bytes) -> Iterator[tuple[int, bytes]]:
    """A Parquet table: one of texts with all bad values, one of its own types with the bad numbers and NaN."""
    (row,) = pl.read_parquet(content).to_dicts()
    texts = [{**row, name: value} for name in row for value in BAD_VALUES]
    yield len(texts), _parquet([{name: str(value) for name, value in each.items()} for each in texts])
    numbers = [name for name, value in row.items() if not isinstance(value, str)]
    bad = (0.0, -1.0, 1e-300, 1e300, None, float("nan"), float("inf"))
    real = [{**row, **{each: float(row[each]) for each in numbers}, name: value} for name in numbers for value in bad]
    yield len(real), _parquet(real)


def _parquet(rows: list[dict[str, Any]]) -> bytes:
    buffer = io.BytesIO()
    pl.DataFrame(rows, infer_schema_length=None).write_parquet(buffer)
    return buffer.getvalue()


def _spoiled_values(document: Any) -> list[Any]:
    text = json.dumps(document)
    spoiled = []
    for path in leaves(document):
        for value in BAD_VALUES:
            copy = json.loads(text)
            parent_of(copy, path)[path[-1]] = value
            spoiled.append(copy)
    return spoiled


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


#: The row of the dashboard as its run wrote it.
_FIXED = {name: value for name, value in API_ROW.items() if name not in ("metrics", "hardware", "spec_method")}
_FIXED |= {"hw": "b200", "spec_decoding": "none", **METRICS}
_MEDIANS = results.vllm_record(
    **{f"mean_{name}_ms": ... for name in ("ttft", "tpot", "itl", "e2el")},
    median_ttft_ms=500.0, median_tpot_ms=75.0, median_e2el_ms=8000.0,
)  # fmt: skip
_SERVER = {"tp_size": 8, "pp_size": 1, "dp_size": 8, "ep_size": 8, "enable_dp_attention": True, "version": "0.5.9"}
FACTS = results.FACTS
_NO_SHAPE = FACTS.replace("tp: 8\n", "")
EXAMPLES: dict[str, Example] = {
    "aiconfigurator agg": Example(csv_text([AGG_ROW]).encode(), None, spoiled_rows),
    "aiconfigurator disagg": Example(csv_text([DISAGG_ROW]).encode(), None, spoiled_rows),
    "aiconfigurator drafts": Example(MTP_TEXT.encode(), None, spoiled_rows),
    "aiconfigurator AFD": Example(
        csv_text([{**AGG_ROW, "(a)nodes": "1", "(f)workers": "1"}]).encode(), None, spoiled_rows, is_read=False
    ),
    "inferencex api": Example(_json([API_ROW, API_DISAGG_ROW, api(spec_method="mtp")]), None, spoiled_records),
    "inferencex fixed": Example(_json([_FIXED]), None, spoiled_records),
    "inferencex agentic": Example(_json([AGENTIC_ROW]), None, spoiled_records),
    "vllm": Example(_json(results.vllm_record()), FACTS, spoiled_lines),
    "vllm medians": Example(_json(_MEDIANS), FACTS, spoiled_lines),
    "vllm multi-turn": Example(_json(results.multi_turn_stats()), CACHED, spoiled_requests),
    "vllm agents": Example(_json(as_vllm(turns())), f"{FACTS}agent_run: true\n", spoiled_requests),
    "aiperf agents": Example(
        _json([json.loads(line) for line in as_aiperf(turns()).splitlines()]), FACTS, spoiled_requests
    ),
    "turn log": Example(_json(turns()), FACTS, spoiled_requests),
    "sglang": Example(_json(results.sglang_record()), FACTS, spoiled_lines),
    "sglang server": Example(_json(results.sglang_record(server_info=_SERVER)), _NO_SHAPE, spoiled_lines),
    "aiperf": Example(_json(results.aiperf_summary()), FACTS, spoiled_documents),
    "aiperf csv": Example(results.AIPERF_CSV.encode(), FACTS, spoiled_cells),
    "genai-perf": Example(_json(results.genai_summary()), FACTS, spoiled_documents),
    "genai-perf csv": Example(results.GENAI_CSV.encode(), FACTS, spoiled_cells),
    "guidellm": Example(_json(results.guidellm_report()), FACTS, spoiled_documents),
    "guidellm csv": Example(results.guidellm_csv().encode(), FACTS, lambda content: spoiled_rows(content, row=3)),
    "inference-perf": Example(_json(results.inference_perf_report()), FACTS, spoiled_documents),
    "llm-d": Example(_json(results.llm_d_report()), FACTS, spoiled_documents),
    "llm-d yaml": Example(yaml.safe_dump(results.llm_d_report()).encode(), FACTS, spoiled_yaml),
    "generic csv": Example(pl.DataFrame([ROW | _WORDS]).write_csv().encode(), _GENERIC, spoiled_rows),
    "generic parquet": Example(_parquet([ROW | _WORDS]), _GENERIC, spoiled_parquet),
}
