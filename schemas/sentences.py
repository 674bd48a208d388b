"""Validation errors as sentences: the field as the user wrote it, what it is and what it must be."""

import math
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from schemas.suggest import did_you_mean

Location = tuple[str | int, ...]

#: Written by the validator beside the true error; repeating it would mislead.
_CONSEQUENCES = frozenset({"default_factory_not_called"})

_NUMBER = "must be a number (no quotes, no thousands separators)"
_WHOLE_NUMBER = "must be a whole number (no quotes, no thousands separators)"
_TEXT = "must be text (put it in quotes)"
_MAPPING = "must be a mapping of fields"
_LIST = "must be a list"
_DEMANDS: dict[str, str] = {
    "finite_number": "must be a finite number",
    "float_type": _NUMBER,
    "int_type": _WHOLE_NUMBER,
    "int_from_float": _WHOLE_NUMBER,
    "string_type": _TEXT,
    "string_pattern_mismatch": (
        "must be lower-case letters, digits and '-', beginning with a letter, 80 characters at most"
    ),
    "string_too_short": "must not be empty",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be {ge} or more",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be {le} or less",
    "literal_error": "must be {expected}",
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
    "dict_type": _MAPPING,
    "tuple_type": _LIST,
    "list_type": _LIST,
}


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with an entry: where it stands in the file, and a sentence about it."""

    location: Location
    sentence: str


def show(value: object) -> str:
    """A value of a YAML or JSON file as one would write it there, cut to 60 characters."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ("-.inf" if value < 0 else ".inf")
    if isinstance(value, float | int):
        return _number(value)
    text = str(value)
    return repr(text if len(text) <= 60 else text[:57] + "...")


def explain(error: ValidationError, model: type[BaseModel], written: object) -> list[Problem]:
    """The problems of one entry of a file, in the order of its fields.

    ``written`` is the entry as the file has it; a model that accepts short forms of its fields says
    so in ``short_forms`` (short form -> location of the field), and the short form is what is named.
    """
    short_forms: Mapping[str, Location] = getattr(model, "short_forms", {})
    problems = []
    for detail in error.errors(include_url=False):
        if detail["type"] in _CONSEQUENCES:
            continue
        location = _without_tags(model, detail["loc"])
        if detail["type"] == "union_tag_invalid":  # the entry's kind is none of the known ones
            location = (*location, detail["ctx"]["discriminator"].strip("'"))
        for short, full in short_forms.items():
            used = isinstance(written, Mapping) and short in written and full[0] not in written
            if used and location[: len(full)] == full:
                location = (short, *location[len(full) :])
        name = _field_name(location)
        if detail["type"] == "missing":
            sentence = f"{name} is missing"
        elif detail["type"] == "extra_forbidden":
            known = sorted(_known_fields(model, detail["loc"][:-1]))
            if len(location) == 1:
                known += sorted(set(short_forms) - set(known))
            suggestion = did_you_mean(str(location[-1]), known)
            sentence = f"{name} is not a field.{suggestion} The fields are {', '.join(known)}"
        elif detail["type"] == "union_tag_invalid":
            kind = detail["input"].get(location[-1])
            sentence = f"{name} is {show(kind)}, must be one of {detail['ctx']['expected_tags']}"
        elif detail["type"] == "value_error":
            sentence = str(detail["ctx"]["error"]).rstrip(".")
        else:
            limits = {key: _number(limit) for key, limit in detail.get("ctx", {}).items()}
            demand = _DEMANDS.get(detail["type"], f"is not allowed ({detail['msg']})").format_map(limits)
            sentence = f"{name or 'the entry'} is {show(detail['input'])}, {demand}"
        problems.append(Problem(location, sentence + "."))
    return problems


def _number(value: object) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


def _field_name(location: Location) -> str:
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in location]
    return "".join(parts).removeprefix(".")


def _known_fields(model: type[BaseModel], location: Location) -> set[str]:
    """Fields that may stand at this place of a model; empty where it takes any key."""
    models = {model}
    for part in location:
        models, _ = _followed(models, part)
    return {name for candidate in models for name in candidate.model_fields}


def _without_tags(model: type[BaseModel], location: Location) -> Location:
    """The location as the file has it: pydantic names the kind that it took an entry for after the field."""
    models, kept = {model}, []
    for part in location:
        models, is_tag = _followed(models, part)
        if not is_tag:
            kept.append(part)
    return tuple(kept)


def _followed(models: set[type[BaseModel]], part: str | int) -> tuple[set[type[BaseModel]], bool]:
    """The models at a part of a location below these models, and whether the part is the tag of a union."""
    if isinstance(part, int):
        return models, False
    fields = [candidate.model_fields[part] for candidate in models if part in candidate.model_fields]
    if fields:
        return {found for field in fields for found in _models_in(field.annotation)}, False
    tagged = {candidate for candidate in models if _kind(candidate) == part}
    return (tagged, True) if tagged and len(models) > 1 else (models, False)


def _kind(model: type[BaseModel]) -> str | None:
    """The tag of a model that stands in a union: the one value of its field ``model``."""
    field = model.model_fields.get("model")
    values = typing.get_args(field.annotation) if field is not None else ()
    return str(values[0]) if len(values) == 1 else None


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _models_in(argument)
