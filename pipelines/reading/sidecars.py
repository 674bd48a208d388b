"""Reads ``source.yaml`` beside tables: what the tables do not say themselves."""

from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

from pydantic import ValidationError

from pipelines.reading.yaml_files import YamlFile, parse_yaml, read_limited
from schemas.errors import UserError
from schemas.sentences import explain, show
from schemas.sidecar import SIDECAR_NAME, Sidecar


def sidecar_of(path: Path) -> Sidecar | None:
    """What the ``source.yaml`` beside this file says of it; None where there is none.

    Raises ``UserError`` with the line and what is wrong, and ``OSError``.
    """
    beside = path.parent / SIDECAR_NAME
    if not beside.is_file():
        return None
    sidecar = _parse_in(path.parent, read_limited(beside))
    try:
        return sidecar.for_file(path.name)
    except ValidationError as error:
        sentence = explain(error, Sidecar, None)[0].sentence
        raise UserError(f"{SIDECAR_NAME}: with what `files` says of {path.name}: {sentence}") from None
    except ValueError as error:
        raise UserError(f"{SIDECAR_NAME}: {error}.") from None


def parse_sidecar(raw: bytes) -> tuple[Sidecar, YamlFile]:
    """The sidecar of these bytes, and its file, which knows the lines. Raises ``UserError`` with line and fault."""
    file = parse_yaml(raw, SIDECAR_NAME)
    if not isinstance(file.value, dict):
        what = "is empty" if file.value is None else f"is {show(file.value)}"
        raise UserError(f"{SIDECAR_NAME}: {what}; it must hold fields, `hardware: h200-sxm` for one.")
    try:
        # Strict: text is no number and a number no text. YAML has told them apart already.
        return Sidecar.model_validate(file.value, strict=True), file
    except ValidationError as error:
        problem = explain(error, Sidecar, file.value)[0]
        raise UserError(f"{SIDECAR_NAME} (line {file.line(problem.location)}): {problem.sentence}") from None


@lru_cache(maxsize=32)  # a folder of a thousand tables has one
def _parse_in(folder: Path, raw: bytes) -> Sidecar:
    sidecar, file = parse_sidecar(raw)
    # A glob that names no file is a slip that would leave its facts unused.
    names = sorted(path.name for path in folder.iterdir()) if sidecar.files else []
    for glob in sidecar.files:
        if not any(fnmatchcase(name, glob) for name in names):
            line = file.line(("files", glob))
            raise UserError(f"{SIDECAR_NAME} (line {line}): no file beside it has a name like {glob!r}.")
    return sidecar
