"""Reads YAML files that people write: plain values, exact numbers, and the line that each came from.

The rules are those of YAML 1.2, so ``3.35e12`` is a number and ``no`` is text. What a catalogue never
needs and what has surprised people is refused: tags, repeated keys, several documents, NaN and files
that grow when their aliases are followed.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from schemas.errors import UserError
from schemas.sentences import Location

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # a PyYAML without libyaml: slower, the same result
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]

MAX_BYTES: Final = 1_000_000
MAX_ALIASES: Final = 1_000
MAX_VALUES: Final = 200_000  # aliases followed
MAX_DEPTH: Final = 30
_MAX_DIGITS: Final = 400
_FAR_BEYOND_ANY_COUNT: Final = 1e24

YamlValue = str | int | float | bool | None | tuple["YamlValue", ...] | dict[str, "YamlValue"]

_TAG: Final = "tag:yaml.org,2002:"


class _CoreLoader(_Loader):
    """Composes nodes by YAML 1.2's core schema; constructs nothing."""

    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012 - declared so by PyYAML


for _kind, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+.0123456789")),
    ("float", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", list("-+.")),
):
    _CoreLoader.add_implicit_resolver(_TAG + _kind, re.compile(f"(?:{_pattern})$"), _first)


@dataclass(frozen=True)
class YamlFile:
    """One file: its values (lists as tuples) and where they stand in it."""

    name: str
    value: YamlValue
    _root: yaml.Node | None

    def line(self, location: Location) -> int:
        """Line of the value at this location, counted from 1; of the nearest that is there if it is not."""
        node, line = self._root, 1
        for part in location:
            if isinstance(node, yaml.MappingNode):
                pair = next((pair for pair in node.value if pair[0].value == part), None)
                if pair is None:
                    break
                line, node = pair[0].start_mark.line + 1, pair[1]
            elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
                node = node.value[part]
                line = node.start_mark.line + 1
            else:
                break
        return line


def read_yaml(path: Path) -> YamlFile:
    """Read one YAML file. Raises ``UserError`` with the file, the line and what is wrong."""
    try:
        raw = read_limited(path)
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file.") from None
    except IsADirectoryError:
        raise UserError(f"{path}: is a folder; name a YAML file.") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL
        raise UserError(f"{path}: cannot be read ({error}).") from None
    return parse_yaml(raw, str(path))


def read_limited(path: Path) -> bytes:
    """The file's bytes, of one that is too long the beginning, which ``parse_yaml`` refuses. Raises ``OSError``."""
    with path.open("rb") as stream:
        return stream.read(MAX_BYTES + 1)


def parse_yaml(raw: bytes, name: str) -> YamlFile:
    """The YAML file of these bytes; ``name`` stands in its messages. Raises ``UserError``."""
    if len(raw) > MAX_BYTES:
        raise UserError(f"{name}: is larger than {MAX_BYTES:,} bytes, the limit for a file of this kind.")
    try:
        root = yaml.compose(raw.decode("utf-8-sig"), _CoreLoader)
    except UnicodeDecodeError:
        raise UserError(f"{name}: is not a text file in UTF-8.") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f" at line {mark.line + 1}" if mark is not None else ""
        raise UserError(f"{name}: is not valid YAML{line}: {error.problem or error.context}.") from None
    except (yaml.YAMLError, ValueError):
        raise UserError(f"{name}: is not a YAML text file (it holds characters that YAML forbids).") from None
    except RecursionError:
        raise UserError(f"{name}: is nested more than {MAX_DEPTH} levels deep.") from None
    return YamlFile(name, _Reader(name).value(root, 0) if root is not None else None, root)


class _Reader:
    """Turns nodes into plain values and refuses what a catalogue never needs."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._values = 0
        self._aliases = 0
        self._seen: set[int] = set()

    def value(self, node: yaml.Node, depth: int) -> YamlValue:
        self._count(node, depth)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            return tuple(self.value(item, depth + 1) for item in node.value)
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            return self._mapping(node, depth)
        raise self._error(node, self._refused_tag(node))

    def _count(self, node: yaml.Node, depth: int) -> None:
        self._values += 1
        if id(node) in self._seen:
            self._aliases += 1
        self._seen.add(id(node))
        if depth > MAX_DEPTH:
            raise self._error(node, f"values are nested more than {MAX_DEPTH} levels deep")
        if self._values > MAX_VALUES:
            raise self._error(node, f"the file holds more than {MAX_VALUES:,} values")
        if self._aliases > MAX_ALIASES:
            raise self._error(node, f"aliases repeat more than {MAX_ALIASES:,} values; write them out")

    def _mapping(self, node: yaml.MappingNode, depth: int) -> dict[str, YamlValue]:
        merged: dict[str, YamlValue] = {}
        own: dict[str, YamlValue] = {}
        lines: dict[str, int] = {}
        for key, item in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._error(key, "the key of a mapping must be text")
            text = str(key.value)
            if text in lines:
                raise self._error(key, f"{text!r} is given twice, first at line {lines[text]}")
            lines[text] = key.start_mark.line + 1
            value = self.value(item, depth + 1)
            if text != "<<":
                own[text] = value
            elif isinstance(value, Mapping):
                merged = dict(value)
            else:
                raise self._error(item, "'<<' must name one mapping")
        return merged | own

    def _scalar(self, node: yaml.ScalarNode) -> YamlValue:
        text = str(node.value)
        match node.tag.removeprefix(_TAG):
            case "str":
                return text
            case "null":
                return None
            case "bool" if text.lower() in ("true", "false"):
                return text.lower() == "true"
            case "int" | "float":
                return self._number(node, text)
        raise self._error(node, self._refused_tag(node))

    def _number(self, node: yaml.ScalarNode, text: str) -> int | float:
        """A whole number is an int however it is written: 80e9 counts bytes as well as 80000000000."""
        if len(text) > _MAX_DIGITS:
            raise self._error(node, f"a number has more than {_MAX_DIGITS} digits")
        try:
            number = float(text.replace(".inf", "inf").replace(".nan", "nan"))
        except ValueError:
            raise self._error(node, f"{text!r} is not a number") from None
        if not number.is_integer() or abs(number) >= _FAR_BEYOND_ANY_COUNT:
            return number
        return int(text) if re.fullmatch(r"[-+]?[0-9]+", text) else int(number)

    def _refused_tag(self, node: yaml.Node) -> str:
        tag = node.tag.replace(_TAG, "!!")
        return f"the tag {tag!r} is not allowed; write plain text, numbers, lists and mappings"

    def _error(self, node: yaml.Node, problem: str) -> UserError:
        return UserError(f"{self._name} (line {node.start_mark.line + 1}): {problem}.")
