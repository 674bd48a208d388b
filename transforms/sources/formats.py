"""The formats that can be read, and which one a file is in."""

from collections.abc import Callable
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
from transforms.sources.json_text import looks_like_json, read_json
from transforms.sources.rows import FileRejectedError, InputFile, Reading
from transforms.sources.settings import add_said_setting
from transforms.sources.text import decode_text


@dataclass(frozen=True)
class Format:
    """A format: ``recognises`` looks at the content alone, ``read`` raises ``FileRejectedError``."""

    name: str
    recognises: Callable[[InputFile], bool]
    read: Callable[[InputFile], Reading]


#: Formats whose rows name their whole configuration: what `run` names there is the same deployment, run again.
_OF_RECIPES: Final = ("aiconfigurator", "inferencex")
#: In the order in which they are asked: the user's own word first; SGLang's records have vLLM's keys too.
_MODULES: Final = (
    generic, aiconfigurator, inferencex, sglang, vllm, vllm_multi_turn, turn_log, aiperf, genai_perf, guidellm,
    guidellm_csv, inference_perf, llm_d,
)  # fmt: skip
FORMATS: Final = tuple(Format(module.NAME, module.recognises, module.read) for module in _MODULES)


def holds_results(content: bytes) -> bool:
    """Whether a file of this content, whatever its name, is in a form that is known by its content."""
    file = InputFile("", content, "")
    return any(format_.recognises(file) for format_ in FORMATS if format_.name != generic.NAME)


def read_file(file: InputFile) -> Reading:
    """The file's rows, by the first format that recognises it. Raises ``FileRejectedError``."""
    if not file.content.strip():
        raise FileRejectedError("the file is empty")
    for format_ in FORMATS:
        if format_.recognises(file):
            reading = format_.read(file)
            _check_said_of_runs(file, reading)
            return replace(reading, rows=add_said_setting(reading.rows, file.sidecar, format_.name not in _OF_RECIPES))
    if generic.is_parquet(file.content):
        raise FileRejectedError("a Parquet file: say in source.yaml beside it what its columns are (`format: generic`)")
    if looks_like_json(file.content):
        read_json(file.content)  # what is wrong with it, if it is no JSON
    known = ", ".join(dict.fromkeys(format_.name for format_ in FORMATS))
    raise FileRejectedError(f"not in a form that can be read ({known}): it begins with {_beginning(file)!r}")


def _check_said_of_runs(file: InputFile, reading: Reading) -> None:
    """What ``source.yaml`` says of agent runs alone must be said of one. Raises ``FileRejectedError``."""
    said = file.sidecar
    if said is None or reading.agentic is not None:
        return
    if said.cache_hit_rate is not None:
        raise FileRejectedError(
            "source.yaml gives cache_hit_rate, which is of runs of agents; of standard rows say prefix_tokens, the "
            "mean tokens of a prompt that were found in the cache"
        )
    if said.agent_run:
        raise FileRejectedError(
            f"source.yaml says agent_run, and a file of the form {reading.format} logs no turns; runs of agents are "
            "read from vLLM's multi-turn benchmark, AIPerf's profile_export.jsonl, InferenceX or a log of turns"
        )


def _beginning(file: InputFile) -> str:
    """The first line, cut short. Raises ``FileRejectedError`` where the file is no text."""
    text = decode_text(file.content).strip()
    if not text:
        raise FileRejectedError("the file is empty")
    line = text.splitlines()[0]
    return line if len(line) <= 60 else f"{line[:57]}..."
