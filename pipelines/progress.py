"""Progress of long work: what the stages say, and who listens. Silent unless a display is set."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from pipelines.terminal import say, terminal_text


class Progress(Protocol):
    """What a display must do."""

    def start(self, stage: str, total: int | None) -> None:
        """A stage begins, of so many steps."""

    def advance(self, stage: str) -> None:
        """One step of the stage is done."""


class _Silent:
    def start(self, stage: str, total: int | None) -> None:
        pass

    def advance(self, stage: str) -> None:
        pass


_display: Progress = _Silent()


def progress() -> Progress:
    """The display in use."""
    return _display


@contextmanager
def shown_progress() -> Iterator[None]:
    """Shows bars on standard error while the block runs; on no terminal, a line when a stage begins."""
    global _display
    from rich.console import Console

    console = Console(stderr=True)
    before = _display
    if console.is_terminal:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        columns = (
            TextColumn("{task.description:32}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Bars(*columns, console=console) as bars:
            _display = _BarDisplay(bars)
            try:
                yield
            finally:
                _display = before
        return
    _display = _LineDisplay()
    try:
        yield
    finally:
        _display = before


class _LineDisplay(_Silent):
    def start(self, stage: str, total: int | None) -> None:

        steps = "" if total is None else f" ({total:,})"
        say(f"{stage}{steps} ...", err=True)


class _BarDisplay:
    def __init__(self, bars: object) -> None:
        self._bars: Any = bars
        self._tasks: dict[str, Any] = {}

    def start(self, stage: str, total: int | None) -> None:
        self._tasks[stage] = self._bars.add_task(terminal_text(stage), total=total)

    def advance(self, stage: str) -> None:
        self._bars.advance(self._tasks[stage])
