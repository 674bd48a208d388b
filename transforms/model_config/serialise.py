"""Models as YAML text, in the layout of ``data/models.yaml``: fields at their default are left out."""

import re
from collections.abc import Iterable
from typing import Any

import yaml

from schemas.models import ModelSpec


class _Flow(dict[str, Any]):
    """A mapping written on one line."""


class _Dumper(yaml.SafeDumper):
    """Block lists of flow mappings, lists indented below their key."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _represent_flow(dumper: yaml.SafeDumper, value: _Flow) -> yaml.Node:
    return dumper.represent_mapping("tag:yaml.org,2002:map", value, flow_style=True)


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    """Quotes what YAML 1.2 takes for a number and PyYAML, of YAML 1.1, writes bare: ``1e5``."""
    style = "'" if _NUMBER.fullmatch(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|0[xo][0-9a-fA-F]+")
_Dumper.add_representer(_Flow, _represent_flow)
_Dumper.add_representer(str, _represent_text)


def model_entry(spec: ModelSpec) -> dict[str, Any]:
    """The plain values of one model, defaults left out."""
    entry = spec.model_dump(mode="json", exclude_defaults=True)
    entry["max_context_tokens"] = spec.max_context_tokens
    return entry


def to_yaml(specs: Iterable[ModelSpec], header: str = "") -> str:
    """A catalogue file: ``models:`` and one entry a model, behind a header of comment lines."""
    entries = [_one_line_parts(model_entry(spec)) for spec in specs]
    body = yaml.dump({"models": entries}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120, indent=2)
    return header + body


def _one_line_parts(entry: dict[str, Any]) -> dict[str, Any]:
    laid_out = {key: _Flow(value) if isinstance(value, dict) else value for key, value in entry.items()}
    laid_out["attention"] = [_Flow(group) for group in entry["attention"]]
    return laid_out
