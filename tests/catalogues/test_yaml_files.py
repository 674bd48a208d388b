"""YAML as people write it: what is read, and what is refused with its line."""

import math
from pathlib import Path

import pytest

from pipelines.reading.yaml_files import MAX_BYTES, parse_yaml, read_yaml
from schemas.errors import UserError


def value_of(text: str) -> object:
    parsed = parse_yaml(f"x: {text}".encode(), "f.yaml").value
    assert isinstance(parsed, dict)
    return parsed["x"]


def refusal(raw: bytes) -> str:
    with pytest.raises(UserError) as caught:
        parse_yaml(raw, "f.yaml")
    assert str(caught.value).startswith("f.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3.35e12", 3_350_000_000_000),  # YAML 1.1 reads text here
        ("80e9", 80_000_000_000),
        ("5E-1", 0.5),
        ("-1", -1),
        ("+0.25", 0.25),
        (".5", 0.5),
        ("8.", 8),
        ("010", 10),  # octal in YAML 1.1
        ("1:30", "1:30"),  # 90 in YAML 1.1
        ("1_000", "1_000"),
        ("1,000", "1,000"),
        ("2026-03-01", "2026-03-01"),  # a date in YAML 1.1
        ("no", "no"),  # false in YAML 1.1
        ("on", "on"),
        ("true", True),
        ("'1000'", "1000"),
        ("~", None),
        ("", None),
        ("[1, two]", (1, "two")),
        ("{a: 1}", {"a": 1}),
    ],
)
def test_values(text: str, value: object) -> None:
    read = value_of(text)
    assert read == value
    assert type(read) is type(value)


def test_whole_numbers_are_ints_and_stay_exact() -> None:
    assert value_of("309220868096") == 309_220_868_096
    assert isinstance(value_of("8.0"), int)
    assert value_of("9007199254740993") == 2**53 + 1


def test_nan_and_infinity_are_read_as_such() -> None:
    """They are refused by the field that they stand in, with its name."""
    assert math.isnan(float(str(value_of(".nan"))))
    assert value_of("-.inf") == -math.inf


def test_aliases_and_merged_mappings() -> None:
    text = b"a: &a {x: 1, y: 2}\nb: *a\nc: {<<: *a, y: 3}\n"
    assert parse_yaml(text, "f").value == {
        "a": {"x": 1, "y": 2},
        "b": {"x": 1, "y": 2},
        "c": {"x": 1, "y": 3},
    }


def test_a_byte_order_mark_and_windows_line_ends_are_no_matter() -> None:
    assert parse_yaml(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n", "f").value == {"a": 1, "b": 2}


def test_lines() -> None:
    file = parse_yaml(b"top:\n  - a: 1\n    b:\n      c: 2\n  - a: 3\n", "f")
    assert file.line(("top",)) == 1
    assert file.line(("top", 0)) == 2
    assert file.line(("top", 0, "b", "c")) == 4
    assert file.line(("top", 1, "a")) == 5
    assert file.line(("top", 1, "missing")) == 5  # the nearest that is there
    assert file.line(("elsewhere",)) == 1


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"a: 1\nb: 2\na: 3\n", "(line 3): 'a' is given twice, first at line 1"),
        (b"a: 1\nb: [\n", "not valid YAML at line 3"),
        (b"a: b: c\n", "not valid YAML at line 1"),
        (b"a: 1\n---\nb: 2\n", "not valid YAML at line 2"),
        (b"a: !!python/object/apply:os.system [ls]\n", "'!!python/object/apply:os.system' is not allowed"),
        (b"a: !thing 1\n", "the tag '!thing' is not allowed"),
        (b"a: !!set {b}\n", "the tag '!!set' is not allowed"),
        (b"a: !!int abc\n", "'abc' is not a number"),
        (b"a: !!bool maybe\n", "the tag '!!bool' is not allowed"),
        (b"? [1, 2]\n: 3\n", "the key of a mapping must be text"),
        (b"a: {<<: [{b: 1}]}\n", "'<<' must name one mapping"),
        (b"a: *nowhere\n", "not valid YAML at line 1: found undefined alias"),
        (b"a: &a [*a]\n", "nested more than 30 levels"),
        (b"[" * 5_000, "not valid YAML"),
        (b"[" * 100 + b"]" * 100, "nested more than 30 levels"),
        (b"a: " + b"9" * 5_000, "a number has more than 400 digits"),
        (b"\x00\x01\x02", "not a YAML text file"),
        (b"\x89PNG\r\n\x1a\n", "not a text file in UTF-8"),
        (b"PAR1\x15\x04\x15\xff", "not a text file in UTF-8"),
        ("a: ü".encode("utf-16"), "not a text file in UTF-8"),
        ("a: ü".encode("latin-1"), "not a text file in UTF-8"),
        (b"a" * (MAX_BYTES + 1), "larger than 1,000,000 bytes"),
    ],
)
def test_refused(raw: bytes, said: str) -> None:
    assert said in refusal(raw)


def test_files_that_grow_by_their_aliases_are_refused() -> None:
    levels = ["l0: &l0 [x, x, x, x, x, x, x, x, x]"]
    levels += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 10)]
    assert "aliases repeat more than 1,000 values" in refusal("\n".join(levels).encode())


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no such file"):
        read_yaml(tmp_path / "none.yaml")
    with pytest.raises(UserError, match="is a folder"):
        read_yaml(tmp_path)
    with pytest.raises(UserError, match="cannot be read"):
        read_yaml(tmp_path / ("long" * 200))
    with pytest.raises(UserError, match="cannot be read"):
        read_yaml(Path("a\0b"))
    with pytest.raises(UserError, match="larger than"):
        read_yaml(Path("/dev/zero"))
