"""The formats that can be read, and which one a file is in."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from transforms.sources import (
    aiconfigurator,
    aiperf,
    genai_perf,
    generic,
    guidellm,
    guidellm_csv,
    inference_perf,
    inferencex,
    llm_d,
    sglang,
    turn_log,
    vllm,
    vllm_multi_turn,
)
from transforms.sources.json_text import let_go_of_last, looks_like_json, read_json
from transforms.sources.parquet_table import is_parquet
from transforms.sources.rows import SLICE_BYTES, FileRejectedError, InputFile, Reading
from transforms.sources.settings import add_said_setting
from transforms.sources.text import decode_text


@dataclass(frozen=True)
class Format:
    """A format: ``recognises`` looks at the content alone, ``read`` raises ``FileRejectedError``.

    ``read`` gives slices of a table, made of so many bytes of it; a report of some runs is one.
    """

    name: str
    recognises: Callable[[InputFile], bool]
    read: Callable[[InputFile, int], Iterator[Reading]]


def _at_once(read: Callable[[InputFile], Reading]) -> Callable[[InputFile, int], Iterator[Reading]]:
    return lambda file, slice_bytes: iter((read(file),))


#: Formats whose rows name their whole configuration: what `run` names there is the same deployment, run again.
_OF_RECIPES: Final = ("aiconfigurator", "inferencex")
#: In the order in which they are asked: the user's own word first; SGLang's records have vLLM's keys too.
_TABLES: Final = (generic, aiconfigurator, inferencex)
_REPORTS: Final = (
    sglang, vllm, vllm_multi_turn, turn_log, aiperf, genai_perf, guidellm, guidellm_csv, inference_perf,
    llm_d,
)  # fmt: skip
FORMATS: Final = (
    *(Format(module.NAME, module.recognises, module.read) for module in _TABLES),
    *(Format(module.NAME, module.recognises, _at_once(module.read)) for module in _REPORTS),
)


def holds_results(content: bytes) -> bool:
    """Whether a file of this content, whatever its name, is in a form that is known by its content."""
    file = InputFile("", content, "")
    return any(format_.recognises(file) for format_ in FORMATS if format_.name != generic.NAME)


def read_file(file: InputFile, slice_bytes: int = SLICE_BYTES) -> Iterator[Reading]:
    """The file's rows in slices, one at least, by the first format that recognises it.

    Raises ``FileRejectedError``, in any slice: then those before it are not to be used.
    """
    try:
        format_ = _format_of(file)
        has_runs = False
        for reading in format_.read(file, slice_bytes):
            has_runs |= reading.agentic is not None
            rows = add_said_setting(reading.rows, file.sidecar, format_.name not in _OF_RECIPES)
            yield replace(reading, rows=rows)
        if not has_runs:
            _check_said_of_runs(file, format_.name)
    finally:
        let_go_of_last()


def _format_of(file: InputFile) -> Format:
    """The first format that recognises the file. Raises ``FileRejectedError`` where none does."""
    if not file.content or file.content.isspace():
        raise FileRejectedError("the file is empty")
    for format_ in FORMATS:
        if format_.recognises(file):
            return format_
    if is_parquet(file.content):
        raise FileRejectedError("a Parquet file: say in source.yaml beside it what its columns are (`format: generic`)")
    if looks_like_json(file.content):
        read_json(file.content)  # what is wrong with it, if it is no JSON
    known = ", ".join(dict.fromkeys(format_.name for format_ in FORMATS))
    raise FileRejectedError(f"not in a form that can be read ({known}): it begins with {_beginning(file)!r}")


def _check_said_of_runs(file: InputFile, format_name: str) -> None:
    """What ``source.yaml`` says of agent runs alone must be said of one. Raises ``FileRejectedError``."""
    said = file.sidecar
    if said is None:
        return
    if said.cache_hit_rate is not None:
        raise FileRejectedError(
            "source.yaml gives cache_hit_rate, which is of runs of agents; of standard rows say prefix_tokens, the "
            "mean tokens of a prompt that were found in the cache"
        )
    if said.agent_run:
        raise FileRejectedError(
            f"source.yaml says agent_run, and a file of the form {format_name} logs no turns; runs of agents are "
            "read from vLLM's multi-turn benchmark, AIPerf's profile_export.jsonl, InferenceX or a log of turns"
        )


def _beginning(file: InputFile) -> str:
    """The first line, cut short. Raises ``FileRejectedError`` where the file is no text."""
    text = decode_text(file.content).strip()
    if not text:
        raise FileRejectedError("the file is empty")
    line = text.splitlines()[0]
    return line if len(line) <= 60 else f"{line[:57]}..."
