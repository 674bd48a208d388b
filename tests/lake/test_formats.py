"""CSV, JSON and tables."""

import csv
import io
import json
import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.lake.formats import display, distinct_names, to_json, write_csv, write_json, write_table


def as_csv(columns: list[str], rows: list[tuple[Any, ...]]) -> str:
    out = io.StringIO(newline="")
    write_csv(out, columns, rows)
    return out.getvalue()


def as_json(columns: list[str], rows: list[tuple[Any, ...]]) -> str:
    out = io.StringIO()
    write_json(out, columns, rows)
    return out.getvalue()


def as_table(
    columns: list[str], rows: list[tuple[Any, ...]], max_rows: int = 0, width: int | None = None
) -> tuple[str, int | None]:
    out = io.StringIO()
    total = write_table(out, columns, rows, max_rows, width)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()).strip("\n"), total


VALUES: list[tuple[Any, str, str]] = [
    (None, "", "null"),
    ("", '""', '""'),
    ("a", "a", '"a"'),
    ('say "hi", é\r\n', '"say ""hi"", é\r\n"', '"say \\"hi\\", é\\r\\n"'),
    (True, "true", "true"),
    (-7, "-7", "-7"),
    (2**53 + 1, "9007199254740993", "9007199254740993"),
    (2**100, "1267650600228229401496703205376", "1267650600228229401496703205376"),
    (0.1, "0.1", "0.1"),
    (1e300, "1e+300", "1e+300"),
    (math.inf, "inf", "null"),
    (math.nan, "nan", "null"),
    (Decimal("1.10"), "1.10", "1.10"),
    (datetime(2026, 4, 17, 2, 0, tzinfo=UTC), "2026-04-17T02:00:00+00:00", '"2026-04-17T02:00:00+00:00"'),
    (datetime(2026, 4, 17, 2, 0, 0, 5), "2026-04-17T02:00:00.000005", '"2026-04-17T02:00:00.000005"'),
    (date(2026, 4, 17), "2026-04-17", '"2026-04-17"'),
    (time(2, 0), "02:00:00", '"02:00:00"'),
    (b"\x00\xff", "00ff", '"00ff"'),
    (UUID(int=1), "00000000-0000-0000-0000-000000000001", '"00000000-0000-0000-0000-000000000001"'),
    ([1, None, "x"], '"[1, null, ""x""]"', '[1, null, "x"]'),
    ({"a": 1.5, "b": [True]}, '"{""a"": 1.5, ""b"": [true]}"', '{"a": 1.5, "b": [true]}'),
    ({date(2026, 4, 17): 1}, '"{""2026-04-17"": 1}"', '{"2026-04-17": 1}'),
]


@pytest.mark.parametrize(("value", "in_csv", "in_json"), VALUES)
def test_values(value: Any, in_csv: str, in_json: str) -> None:
    assert as_csv(["x", "y"], [(value, 1)]) == f"x,y\r\n{in_csv},1\r\n"
    assert to_json(value) == in_json
    assert as_json(["x"], [(value,)]) == f'[\n{{"x": {in_json}}}\n]\n'


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@given(st.lists(texts, min_size=2, max_size=4), st.lists(st.tuples(texts, texts)))
def test_csv_is_read_back_by_another_reader(names: list[str], rows: list[tuple[str, str]]) -> None:
    text = as_csv(names[:2], rows)
    written = [[f"'{cell}" if cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell for cell in row]
               for row in (names[:2], *rows)]  # fmt: skip
    assert list(csv.reader(io.StringIO(text, newline=""), strict=True)) == written


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=8,
)


@given(st.lists(st.tuples(json_values, json_values), max_size=4))
def test_json_is_read_back_by_another_reader(rows: list[tuple[Any, Any]]) -> None:
    assert json.loads(as_json(["a", 'b"'], rows)) == [{"a": a, 'b"': b} for a, b in rows]


def test_no_rows() -> None:
    assert as_csv(["a", "b"], []) == "a,b\r\n"
    assert as_json(["a"], []) == "[]\n"
    assert as_table(["a"], []) == (" a\n ─", 0)


def test_json_keeps_columns_of_one_name() -> None:
    assert distinct_names(["a", "a", "a_2", "a"]) == ["a", "a_3", "a_2", "a_4"]
    assert json.loads(as_json(["n", "n"], [(1, 2)])) == [{"n": 1, "n_2": 2}]


@given(st.lists(st.sampled_from(["a", "a_2", "a_3", "b"]), max_size=8))
def test_distinct_names_are_distinct(columns: list[str]) -> None:
    names = distinct_names(columns)
    assert len(set(names)) == len(columns)
    assert all(name == column or name.startswith(f"{column}_") for name, column in zip(names, columns, strict=True))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "NULL"),
        (0.0, "0"),
        (1 / 3, "0.333333"),
        (12345.678, "12345.7"),
        (193_273_528_320.0, "193273528320"),
        (-140e9, "-140000000000"),
        (1e15, "1e+15"),
        (1.2e-7, "1.2e-07"),
        (193_273_528_320, "193273528320"),
        ("[bold]x[/bold]", "[bold]x[/bold]"),
        ("\x1b[2Jgone\a\n\u202e", "\\x1b[2Jgone\\x07\\n\\u202e"),
    ],
)
def test_values_for_reading(value: Any, shown: str) -> None:
    assert display(value) == shown
    assert shown in as_table(["x"], [(value,)])[0]


def test_a_table() -> None:
    text, total = as_table(
        ["hardware", "tasks_per_hour_per_gpu", "feasible"],
        [("b200", 1234.5, True), ("h100-sxm", None, False)],
    )
    assert total == 2
    assert text.splitlines() == [
        " hardware   tasks_per_hour_per_gpu   feasible",
        " ────────────────────────────────────────────",
        " b200                       1234.5   true",
        " h100-sxm                     NULL   false",
    ]


def test_a_table_stops_at_its_limit() -> None:
    rows = [(i,) for i in range(5)]
    text, total = as_table(["i"], rows, max_rows=2)
    assert text.split() == ["i", "─", "0", "1"]
    assert total is None
    assert as_table(["i"], rows, max_rows=5)[1] == 5


def test_a_table_that_is_wider_than_the_terminal_is_written_down_the_page() -> None:
    columns, row = ["point_id", "x" * 30], ("p" * 30, 1.5)
    text, _ = as_table(columns, [row, row], width=64)
    assert text.splitlines()[:4] == [
        "row 1",
        f"  point_id{' ' * 22}  {'p' * 30}",
        f"  {'x' * 30}  1.5",
        "row 2",
    ]
    assert as_table(columns, [row], width=70)[0].splitlines()[0].split() == columns


def test_a_value_that_is_wider_than_the_terminal_goes_on_below() -> None:
    text, _ = as_table(["a", "b"], [("word " * 20, 1)], width=40)
    assert max(map(len, text.splitlines())) <= 40
    assert " ".join(text.split()) == f"row 1 a {' '.join(['word'] * 20)} b 1"


def test_a_table_that_is_not_for_a_terminal_is_never_cut() -> None:
    columns = [f"column_{i}" for i in range(100)]
    text, _ = as_table(columns, [tuple(range(100))])
    assert text.splitlines()[0].split() == columns
    assert text.splitlines()[2].split() == [str(i) for i in range(100)]
