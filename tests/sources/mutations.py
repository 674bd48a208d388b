"""Mutations of good tables: what tools, editors, disks and people do to files.

Each takes the file's bytes and a random source and gives new bytes, and whether the rows and their figures
must still be the same (``SAME``), must still be as many (``ROWS``) or may be anything (``ANY``).
"""

import csv
import io
import json
import random
from collections.abc import Callable
from typing import Any

SAME, ROWS, ANY = "same figures", "same number of rows", "anything"
Mutated = tuple[bytes, str]
Mutation = Callable[[bytes, random.Random], Mutated]

#: Cells and JSON values that are no good number.
HOSTILE_CELLS = (
    "", " ", "nan", "NaN", "inf", "-inf", "Infinity", "-1", "0", "-0.0", "1e400", "-1e308", "1e308", "1e-320",
    "1,146.31", "12,5", "1 000", "1_000", "abc", "0x10", "TRUE", "None", "null", "NULL", "#REF!", "\uff14\uff12",
    "\u0661", "1.5.2", "--3", "x" * 5000, "\U0001f600", "9" * 400, "4.5", "1e18", "1e19", "99999999999999999999",
    "=1+1", "a\u0301", "\u202e5",
)  # fmt: skip
HOSTILE_VALUES: tuple[Any, ...] = (
    None, "", "nan", True, False, [], {}, [1], {"a": 1}, -1, 0, 1e308, -1e308, 1e-320, 10**400, "5", "1,5", 4.5,
    "x" * 5000, "\ud800", "\u0000", [[[[[[]]]]]], 1e18, 1e19, 2**63, -(2**70), "\U0001f600",
)  # fmt: skip


def read_table(content: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(content.decode(), newline="")))


def write_table(table: list[list[str]], **how: Any) -> bytes:
    out = io.StringIO()
    csv.writer(out, **{"lineterminator": "\n", **how}).writerows(table)
    return out.getvalue().encode("utf-8", "replace")


def reorder_columns(content: bytes, rng: random.Random) -> Mutated:
    table = read_table(content)
    order = rng.sample(range(len(table[0])), len(table[0]))
    return write_table([[row[i] for i in order] for row in table]), SAME


def quote_cells(content: bytes, rng: random.Random) -> Mutated:
    return write_table(read_table(content), quoting=csv.QUOTE_ALL, lineterminator=rng.choice(["\n", "\r\n"])), SAME


def blank_lines(content: bytes, rng: random.Random) -> Mutated:
    lines = content.decode().splitlines()
    for _ in range(rng.randint(1, 3)):
        lines.insert(rng.randint(0, len(lines)), rng.choice(["", "   ", ",,,"]))
    return "\n".join(lines).encode() + rng.choice([b"", b"\n", b"\n\n\n"]), SAME


def pad_cells(content: bytes, rng: random.Random) -> Mutated:
    return write_table(
        [[f" {cell}" if rng.random() < 0.3 else cell for cell in row] for row in read_table(content)]
    ), SAME


def encode(content: bytes, rng: random.Random) -> Mutated:
    return content.decode().encode(rng.choice(["utf-8-sig", "utf-16"])), SAME


def line_ends(content: bytes, rng: random.Random) -> Mutated:
    return content.replace(b"\n", rng.choice([b"\r\n", b"\r"])), SAME


def drop_column(content: bytes, rng: random.Random) -> Mutated:
    table = read_table(content)
    gone = rng.randrange(len(table[0]))
    return write_table([row[:gone] + row[gone + 1 :] for row in table]), ROWS


def rename_column(content: bytes, rng: random.Random) -> Mutated:
    table = read_table(content)
    at = rng.randrange(len(table[0]))
    table[0][at] = rng.choice(
        [table[0][at].upper(), f"{table[0][at]}_ms", "x", "", "ttft", "reason", "source_row", "raw"]
    )
    return write_table(table), ROWS


def duplicate_column(content: bytes, rng: random.Random) -> Mutated:
    table = read_table(content)
    at = rng.randrange(len(table[0]))
    return write_table([[*row, row[at]] for row in table]), ROWS


def swap_columns(content: bytes, rng: random.Random) -> Mutated:
    table = read_table(content)
    one, other = rng.sample(range(len(table[0])), 2)
    table[0][one], table[0][other] = table[0][other], table[0][one]
    return write_table(table), ROWS


def hostile_cells(content: bytes, rng: random.Random) -> Mutated:
    table = read_table(content)
    for _ in range(rng.randint(1, 4)):
        row = table[rng.randrange(1, len(table))]
        row[rng.randrange(len(row))] = rng.choice(HOSTILE_CELLS)
    return write_table(table), ROWS


def scale_column(content: bytes, rng: random.Random) -> Mutated:
    table = read_table(content)
    at, factor = rng.randrange(len(table[0])), rng.choice([1e-3, 1e3, 2.0, 8.0, -1.0])
    for row in table[1:]:
        try:
            row[at] = repr(float(row[at]) * factor)
        except ValueError:
            continue
    return write_table(table), ROWS


def ragged_rows(content: bytes, rng: random.Random) -> Mutated:
    table = read_table(content)
    row = table[rng.randrange(1, len(table))]
    if rng.random() < 0.5:
        row.extend(["1"] * rng.randint(1, 3))
    else:
        del row[rng.randint(1, len(row) - 1) :]
    return write_table(table), ROWS


def delimiter(content: bytes, rng: random.Random) -> Mutated:
    decimal = rng.random() < 0.5
    table = [[cell.replace(".", ",") if decimal else cell for cell in row] for row in read_table(content)]
    return write_table(table, delimiter=rng.choice([";", "\t", "|"])), ANY


def thousands(content: bytes, rng: random.Random) -> Mutated:
    def grouped(cell: str) -> str:
        try:
            return f"{float(cell):,.3f}"
        except ValueError:
            return cell

    return write_table([[grouped(cell) for cell in row] for row in read_table(content)]), ROWS


def cut(content: bytes, rng: random.Random) -> Mutated:
    return content[: rng.randrange(len(content))], ANY


def flip_bytes(content: bytes, rng: random.Random) -> Mutated:
    changed = bytearray(content)
    for _ in range(rng.randint(1, 8)):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed), ANY


def insert_bytes(content: bytes, rng: random.Random) -> Mutated:
    at = rng.randrange(len(content))
    return content[:at] + rng.choice([b"\0", b"\xff\xfe", b'"', b"\xef\xbb\xbf", b"\n", rng.randbytes(20)]) + content[
        at:
    ], ANY


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else []
    found = [path] if path else []
    for key, child in children:
        found += leaves(child, (*path, key))
    return found


def parent_of(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path[:-1]:
        value = value[key]
    return value


def hostile_values(content: bytes, rng: random.Random) -> Mutated:
    document = json.loads(content)
    for _ in range(rng.randint(1, 3)):
        paths = leaves(document)
        if paths:
            path = rng.choice(paths)
            parent_of(document, path)[path[-1]] = rng.choice(HOSTILE_VALUES)
    return json.dumps(document).encode(), ANY


def drop_key(content: bytes, rng: random.Random) -> Mutated:
    document = json.loads(content)
    path = rng.choice(leaves(document))
    del parent_of(document, path)[path[-1]]
    return json.dumps(document).encode(), ANY


def scale_value(content: bytes, rng: random.Random) -> Mutated:
    document = json.loads(content)
    path = rng.choice(leaves(document))
    parent = parent_of(document, path)
    if isinstance(parent[path[-1]], int | float):
        parent[path[-1]] *= rng.choice([1e-3, 1e3, 2, -1])
    return json.dumps(document).encode(), ANY


def double_key(content: bytes, rng: random.Random) -> Mutated:
    at = content.find(b'"', rng.randrange(len(content)))
    return content[:at] + b'"conc": 1, ' + content[at:], ANY


def indent(content: bytes, rng: random.Random) -> Mutated:
    return json.dumps(json.loads(content), indent=rng.choice([None, 1, 4])).encode(), SAME


TEXT_MUTATIONS: tuple[Mutation, ...] = (cut, flip_bytes, insert_bytes, encode)
CSV_MUTATIONS: tuple[Mutation, ...] = (
    *TEXT_MUTATIONS, reorder_columns, quote_cells, blank_lines, pad_cells, line_ends, drop_column, rename_column,
    duplicate_column, swap_columns, hostile_cells, scale_column, ragged_rows, delimiter, thousands,
)  # fmt: skip
JSON_MUTATIONS: tuple[Mutation, ...] = (
    *TEXT_MUTATIONS, hostile_values, hostile_values, drop_key, scale_value, double_key, indent,
)  # fmt: skip
