"""Text and tables on the terminal, as text: nothing in a name is markup or drives the terminal."""

from collections.abc import Iterable, Sequence


def terminal_text(text: str) -> str:
    """The text with its control characters escaped (``\\x1b``); line breaks and tabs of its own stay."""
    return "".join(
        character if character.isprintable() or character in "\n\t" else character.encode("unicode_escape").decode()
        for character in text
    )


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], caption: str | None = None) -> None:
    """Print rows under their columns: the first column to the left, the others to the right.

    A line break in a column's name breaks its header. Nothing is cut: a table that is wider than the
    terminal, or than a pipe's assumed 80 columns, keeps its width.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    def cell(text: str) -> Text:
        return Text(terminal_text(text))

    below = cell(caption) if caption else None
    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        caption=below,
        caption_justify="left",
    )
    for number, column in enumerate(columns):
        table.add_column(cell(column), justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(cell, row))
    console = Console()
    natural = console.measure(table, options=console.options.update(width=10_000)).maximum
    console.width = max(console.width, natural)
    console.print(table)
