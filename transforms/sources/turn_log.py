"""A log of agents' turns of one's own: one row a turn, CSV or JSON (a list, or lines), in columns of fixed names.

``session,start_s,latency_s,ttft_s,input_tokens,output_tokens`` and, where they are known, ``cached_tokens`` (of the
prompt, found by the server), ``history_tokens`` (of the prompt, known from the session's turns before) and ``failed``
(true or false). Times are seconds of one clock. The file is one run on one deployment, which ``source.yaml`` names.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from schemas.sentences import show
from schemas.suggest import did_you_mean
from transforms.sources.agent_turns import TURN_SCHEMA, agent_run_reading, turns_frame
from transforms.sources.csv_table import ADDED, open_csv
from transforms.sources.json_text import first_record, looks_like_json, read_json
from transforms.sources.record import to_number
from transforms.sources.rows import FileRejectedError, InputFile, Reading
from transforms.sources.text import header_of

NAME: Final = "turn-log"

_NEEDED: Final = ("session", "start_s", "latency_s", "ttft_s", "input_tokens", "output_tokens")
_NUMBERS: Final = tuple(name for name in TURN_SCHEMA if name not in ("session", "failed"))
_MAY_LACK: Final = ("cached_tokens", "history_tokens")
_WORDS: Final = {"true": True, "1": True, "false": False, "0": False, "": False}


def recognises(file: InputFile) -> bool:
    """The names of the columns that every log has."""
    if looks_like_json(file.content):
        return first_record(file.content).keys() >= set(_NEEDED)
    return set(header_of(file.content)) >= set(_NEEDED)


def read(file: InputFile) -> Reading:
    """The one run. Raises ``FileRejectedError``."""
    rows = _json_rows(file) if looks_like_json(file.content) else _csv_rows(file)
    turns = [_turn(row, number) for number, row in enumerate(rows, 1)]
    return agent_run_reading(turns_frame(turns), NAME, "log of turns", file.sidecar)


def _csv_rows(file: InputFile) -> Iterator[Mapping[str, object]]:
    for table in open_csv(file.content).slices():
        wrong = table["detail"].drop_nulls()
        if len(wrong):
            raise FileRejectedError(wrong[0])
        yield from table.drop(ADDED).iter_rows(named=True)


def _json_rows(file: InputFile) -> Iterator[Mapping[str, object]]:
    for number, document in enumerate(read_json(file.content).documents, 1):
        if not isinstance(document.value, Mapping):
            raise FileRejectedError(document.fault or f"turn {number} is no JSON object")
        yield document.value


def _turn(row: Mapping[str, object], number: int) -> tuple[object, ...]:
    for name in row:
        if name not in TURN_SCHEMA:
            known = ", ".join(TURN_SCHEMA)
            raise FileRejectedError(
                f"turn {number} has {name!r}, which a log of turns does not.{did_you_mean(name, list(TURN_SCHEMA))}"
                f" It has {known}"
            )
    session = row.get("session")
    if session is None or isinstance(session, dict | list | bool | float):
        raise FileRejectedError(f"turn {number} has session {show(session)}, must be a name or a whole number")
    failed = _WORDS.get(str(row.get("failed") if row.get("failed") is not None else "").casefold())
    if failed is None:
        raise FileRejectedError(f"turn {number} has failed {show(row.get('failed'))}, must be true or false")
    numbers = [_number(row.get(name), name, number, may_lack=failed or name in _MAY_LACK) for name in _NUMBERS]
    return (str(session), *numbers, failed)


def _number(value: object, name: str, turn: int, *, may_lack: bool) -> float | None:
    if value is None and may_lack and name != "start_s":
        return None
    found = to_number(value)
    if found is None and isinstance(value, str):
        found = _of_text(value)
    if found is None:
        raise FileRejectedError(f"turn {turn} has {name} {show(value)}, not a number")
    return found


def _of_text(text: str) -> float | None:
    try:
        return to_number(float(text))
    except ValueError:
        return None
