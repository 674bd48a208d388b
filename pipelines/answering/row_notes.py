"""What to know of the rows that an answer shows, besides how they were carried: one line each, under any table."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipelines.terminal import print_text

if TYPE_CHECKING:
    from pipelines.answering.release_contents import ReleaseContents
    from transforms.synthesis.slower import SlowTable

#: What the notes are made from, besides ``hardware``.
NOTED_COLUMNS = ("database_mode", "slower_than_roofline")


def print_notes(rows: Sequence[Mapping[str, Any]], slow: "Sequence[SlowTable]") -> None:
    """Print the notes of the rows shown."""
    for note in row_notes(rows, slow):
        print_text(note)


def slow_tables_of(contents: "ReleaseContents", rows: Iterable[Mapping[str, Any]]) -> "list[SlowTable]":
    """The tables of a release that are slow throughout, of the models and hardware of the rows."""
    from transforms.synthesis.slower import slow_tables

    hardware: dict[str, list[str]] = {}
    for row in rows:
        hardware.setdefault(row["model"], []).append(row["hardware"])
    read = (
        contents.read("serving_points", list(dict.fromkeys(gpus)), model, needed=()) for model, gpus in hardware.items()
    )
    return [table for points in read for table in slow_tables(points)]


def row_notes(rows: Iterable[Mapping[str, Any]], slow: "Sequence[SlowTable]" = ()) -> list[str]:
    """Rows whose kernel times were estimated, and rows that are several times slower than the roofline.

    ``rows`` are those shown, with ``hardware`` and ``NOTED_COLUMNS``; ``slow`` are whole tables of the lake, of which
    those on hardware shown are said.
    """
    from transforms.sources.aiconfigurator_drafts import MEASURED_MODE

    by_hardware: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_hardware.setdefault(row["hardware"], []).append(row)
    notes = []
    for hardware, shown in by_hardware.items():
        whole = [table.sentence for table in slow if table.hardware == hardware]
        times = sorted(row["slower_than_roofline"] for row in shown if row.get("slower_than_roofline") is not None)
        if whole:
            notes += [f"slow, {sentence}" for sentence in whole]
        elif times:
            some = f"{len(times)} of {len(shown)} rows are" if len(shown) > 1 else "the row is"
            span = (
                f"{times[0]:.1f}" if f"{times[0]:.1f}" == f"{times[-1]:.1f}" else f"{times[0]:.1f} to {times[-1]:.1f}"
            )
            notes.append(f"slow, {hardware}: {some} {span} times slower than the roofline of the same configuration")
        modes = {str(row["database_mode"]) for row in shown if row.get("database_mode") is not None} - {MEASURED_MODE}
        for mode in sorted(modes):
            notes.append(
                f"estimated, {hardware}: kernel times of AIConfigurator's database mode {mode}, not all measured"
            )
    return notes
