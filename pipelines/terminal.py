"""Tables on the terminal."""

from collections.abc import Iterable, Sequence


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], caption: str | None = None) -> None:
    """Print rows under their columns: the first column to the left, the others to the right.

    A line break in a column's name breaks its header. Nothing is cut: a table that is wider than the
    terminal, or than a pipe's assumed 80 columns, keeps its width.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), caption=caption, caption_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console = Console()
    natural = console.measure(table, options=console.options.update(width=10_000)).maximum
    console.width = max(console.width, natural)
    console.print(table)
