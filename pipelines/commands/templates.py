"""Catalogue files to fill in: an example entry, each field with what it means, as YAML that the program reads."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from pydantic import BaseModel

_WIDTH = 118


def template(key: str, model: type[BaseModel], example: Mapping[str, Any], notes: Sequence[str]) -> str:
    """A file with the list ``key`` of one entry: the fields of ``example``, described as the model describes them.

    ``notes``: lines of comment above it.
    """
    lines = [f"# {line}" for note in notes for line in textwrap.wrap(note, _WIDTH)]
    lines.append(f"{key}:")
    for number, (name, value) in enumerate(example.items()):
        lead = "  - " if number == 0 else "    "
        text = yaml.safe_dump({name: value}, sort_keys=False, allow_unicode=True, width=_WIDTH - 10).rstrip("\n")
        described = model.model_fields[name].description if name in model.model_fields else None
        if described is not None:
            lines += [f"    # {line}" for line in textwrap.wrap(described, _WIDTH - 6)]
        lines += [f"{lead if place == 0 else '    '}{line}" for place, line in enumerate(text.split("\n"))]
    return "\n".join(lines)
