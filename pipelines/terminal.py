"""Text and tables on the terminal, as text: nothing in a name is markup or drives the terminal."""

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence

#: The least that a table is fitted to, and the length of lines of text where nothing says a width.
LEAST_COLUMNS, TEXT_COLUMNS = 40, 118


def terminal_text(text: str) -> str:
    """The text with its control characters escaped (``\\x1b``); line breaks and tabs of its own stay."""
    return "".join(
        character if character.isprintable() or character in "\n\t" else character.encode("unicode_escape").decode()
        for character in text
    )


def json_text(text: str) -> str:
    """JSON of the same meaning without control characters, as DEL and those of C1, which JSON itself allows."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character == "\n" else json.dumps(character)[1:-1] for character in text
    )


def say(text: str = "", err: bool = False) -> None:
    """Print a text as it is but for its control characters; ``err``: on standard error."""
    print(terminal_text(text), file=sys.stderr if err else sys.stdout, flush=True)


def terminal_columns() -> int | None:
    """The columns of the terminal, or those that COLUMNS gives; None where output goes to a file or a pipe."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return max(shutil.get_terminal_size().columns, LEAST_COLUMNS)
    return None


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    caption: str | None = None,
    importance: Sequence[int] | None = None,
) -> list[str]:
    """Print rows under their columns, the first to the left, the others to the right; returns the columns shown.

    A line break in a column's name breaks its header. No cell is cut. Where the table is wider than the terminal the
    columns of least ``importance`` (a number for each, 0 never goes; without numbers from the right, the first two
    stay) are left out and named below; what still does not fit is written a row after the other, a column a line. A
    pipe or a file gets the whole table.
    """
    columns = [terminal_text(column) for column in columns]
    cells, width = [[terminal_text(cell) for cell in row] for row in rows], terminal_columns()
    kept = list(range(len(columns)))
    if width is not None:
        kept = _that_fit(columns, cells, importance or [0, 0, *([1] * len(columns[2:]))], width)
    left_out = [columns[place].replace("\n", " ") for place in range(len(columns)) if place not in kept]
    if width is not None and _natural_width(columns, cells, kept) > width:
        _print_records(columns, cells, width)
        kept, left_out = list(range(len(columns))), []
    else:
        _print_columns(columns, cells, kept, width)
    lines = [] if caption is None else terminal_text(caption).splitlines()
    if left_out:
        lines.append(f"Not shown in so narrow a terminal: {', '.join(left_out)}.")
    for line in lines:
        print_text(line)
    return [columns[place] for place in kept]


def print_text(text: str, columns: int | None = TEXT_COLUMNS) -> None:
    """Print a line of text, broken between words where the terminal ends; in a file at ``columns``, None: nowhere."""
    width = terminal_columns() or columns
    if width is None:
        say(text)
        return
    text = terminal_text(text)
    indent = " " * (len(text) - len(text.lstrip()))
    # an option is one word
    lines = textwrap.wrap(text.strip(), width - len(indent), subsequent_indent="  ", break_on_hyphens=False)
    say("\n".join(indent + line for line in lines))


def _that_fit(columns: Sequence[str], cells: list[list[str]], importance: Sequence[int], width: int) -> list[int]:
    """The places of the columns that stay: the least important go first, of equals the last."""
    kept = list(range(len(columns)))
    while _natural_width(columns, cells, kept) > width:
        droppable = [place for place in kept if importance[place] > 0]
        if not droppable:
            return list(range(len(columns)))
        kept.remove(max(droppable, key=lambda place: (importance[place], place)))
    return kept


def _natural_width(columns: Sequence[str], cells: list[list[str]], kept: Sequence[int]) -> int:
    """The columns of the terminal that these columns of the table take, two spaces behind each."""
    widest = (
        max([len(line) for line in columns[place].split("\n")] + [len(row[place]) for row in cells]) for place in kept
    )
    return 1 + sum(width + 2 for width in widest)


def _print_columns(columns: Sequence[str], cells: list[list[str]], kept: Sequence[int], width: int | None) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for number, place in enumerate(kept):
        table.add_column(Text(columns[place]), justify="right" if number else "left", no_wrap=True)
    for row in cells:
        table.add_row(*(Text(row[place]) for place in kept))
    console = Console(highlight=False)
    natural = console.measure(table, options=console.options.update(width=10_000)).maximum
    console.width = natural if width is None else max(width, natural)
    with console.capture() as capture:
        console.print(table)
    # Rich would end the program where nobody reads on
    print("\n".join(line.rstrip() for line in capture.get().splitlines()))


def _print_records(columns: Sequence[str], cells: list[list[str]], width: int) -> None:
    names = [name.replace("\n", " ") for name in columns]
    margin = max(map(len, names), default=0)
    for number, row in enumerate(cells):
        print("" if number == 0 else "-" * min(width, margin + 10))
        for name, cell in zip(names, row, strict=True):
            lines = textwrap.wrap(cell, max(width - margin - 2, 10)) or [""]
            print(f"{name:<{margin}}  {lines[0]}".rstrip())
            for line in lines[1:]:
                print(" " * (margin + 2) + line)
    print()
