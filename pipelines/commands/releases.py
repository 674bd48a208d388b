"""`agent-pareto releases`: list, compare, verify, roll back, prune and relink the releases of a lake."""

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pipelines.commands.shared_options import DEFAULT_LAKE, LakeOption
from pipelines.terminal import print_table, print_text, say

if TYPE_CHECKING:
    from pipelines.lake.diff import ReleaseDiff
    from pipelines.lake.reader import Release

GRACE_MINUTES = 60.0
#: Causes of a difference that are named in the terminal.
_CAUSES = 12
_GROUP_COLUMNS = (
    "hardware", "model", "scenario", "gained", "lost", "moved", "turn_latency_change", "best_before", "best_after",
    "because",
)  # fmt: skip

releases_app = typer.Typer(help="The releases of a lake.", no_args_is_help=True)


@releases_app.callback()
def _group() -> None:
    """The releases of a lake."""


@releases_app.command("list")
def list_command(
    lake: LakeOption = DEFAULT_LAKE,
    output_format: Annotated[
        Literal["table", "json", "csv"], typer.Option("--format", help="json: also the rows of each table.")
    ] = "table",
) -> None:
    """List the releases, oldest first, and which one is current."""
    import sys

    from pipelines.commands.output import print_records
    from pipelines.lake.formats import write_json
    from pipelines.lake.layout import Lake
    from pipelines.lake.reader import current_id, list_releases
    from schemas.errors import UserError

    releases = list_releases(lake)
    current = None
    try:
        current = current_id(Lake.at(lake))
    except UserError as error:
        if not releases:
            raise
        say(f"Warning: {error}", err=True)
    gone = (
        None if current in (None, *(release.id for release in releases)) else f"The current release {current} is gone"
    )
    if not releases:
        raise UserError(
            f"{f'{gone}: {lake}' if gone else lake} holds no release: run `agent-pareto build --out {lake}` first."
        )
    if gone:
        say(f"{gone}: its folder is not there or not complete. Choose one with `releases rollback ID`.", err=True)
    columns = ["release", "current", "created_at", "code_version", "schema_version", "rows", "bytes"]
    rows: list[list[object]] = []
    for release in releases:
        try:
            said = _said_by_manifest(release)
        except UserError as error:
            say(f"Warning: {error}", err=True)
            said = [None] * 5
        rows.append([release.id, release.id == current, *said])
    if output_format == "json":
        write_json(sys.stdout, columns, rows)
        return
    for row in rows:
        row[5] = sum(row[5].values()) if isinstance(row[5], dict) else None
    if output_format == "csv":
        print_records([dict(zip(columns, row, strict=True)) for row in rows], columns, "csv")
        return
    for row in rows:
        row[1] = "current" if row[1] else ""
    print_table(columns, [[_cell(value) for value in row] for row in rows], importance=[0, 0, 4, 3, 2, 0, 1])


def _cell(value: object) -> str:
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _said_by_manifest(release: "Release") -> list[object]:
    """When and by what a release was made, rows by table, and bytes. Raises ``UserError`` where it is damaged."""
    from pipelines.lake.layout import MANIFEST, damaged

    manifest = release.manifest
    try:
        made = [str(manifest[name]) for name in ("created_at", "code_version", "schema_version")]
        tables = {str(name): (int(table["rows"]), int(table["bytes"])) for name, table in manifest["tables"].items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(release.path / MANIFEST, f"is no manifest ({error!r})") from error
    return [*made, {name: rows for name, (rows, _) in tables.items()}, sum(size for _, size in tables.values())]


@releases_app.command("rollback")
def rollback_command(
    release_id: Annotated[str, typer.Argument(metavar="ID", help="A release that `releases list` shows.")],
    lake: LakeOption = DEFAULT_LAKE,
) -> None:
    """Make an earlier (or later) release the current one. Nothing is deleted."""
    from pipelines.lake.retention import rollback

    release = rollback(lake, release_id, on_wait=partial(say, err=True))
    say(f"{release.id} is now the current release of {lake}.")


@releases_app.command("prune")
def prune_command(
    keep: Annotated[int, typer.Option("--keep", metavar="N", min=1, help="How many of the newest releases stay.")],
    lake: LakeOption = DEFAULT_LAKE,
    grace_minutes: Annotated[
        float,
        typer.Option("--grace-minutes", min=0, help="A release stays so long after it was current; 0 if nobody reads."),
    ] = GRACE_MINUTES,
) -> None:
    """Delete all but the newest N releases; never the current one, nor one that a reader may still hold."""
    from pipelines.lake.retention import prune

    pruned = prune(lake, keep, timedelta(minutes=grace_minutes), on_wait=partial(say, err=True))
    for release_id in pruned.deleted:
        say(f"deleted {release_id}")
    for release_id in pruned.left_for_readers:
        say(f"left    {release_id}: it was current less than {grace_minutes:g} minutes ago")
    if not pruned.deleted and not pruned.left_for_readers:
        say("Nothing to delete.")


@releases_app.command("diff")
def diff_command(
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="A release that `releases list` shows.")],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="Another one.")],
    lake: LakeOption = DEFAULT_LAKE,
    top: Annotated[
        int, typer.Option("--top", min=0, help="So many GPUs, models and scenarios in the table; 0: all.")
    ] = 10,
    output_format: Annotated[
        Literal["table", "json", "csv"],
        typer.Option("--format", help="csv: each GPU, model and scenario that differs."),
    ] = "table",
) -> None:
    """Compare two releases: points gained, lost and moved, where, by how much, and what did it.

    A point is a configuration at one load and scenario. What did it are files, options, catalogue entries and code
    that differ and bear on the point. Exit 1, with an alarm, when an input file gives fewer usable rows in AFTER than
    in BEFORE.
    """
    from dataclasses import asdict

    from pipelines.commands.output import print_json, print_records
    from pipelines.lake.diff import diff_releases

    diff = diff_releases(lake, before, after)
    if output_format == "json":
        print_json(diff.to_json())
    elif output_format == "csv":
        groups = [{**asdict(group), "because": "; ".join(group.because)} for group in diff.groups]
        print_records(groups, _GROUP_COLUMNS, "csv")
    else:
        _print_diff(diff, top)
    for file in diff.lost_rows:
        say(
            f"ALARM: {file.path} ({file.tool or 'no tool'}) gives {file.rows_after:,} usable rows, "
            f"{file.rows_before:,} before.",
            err=True,
        )
    if diff.lost_rows:
        raise typer.Exit(1)


def _print_diff(diff: "ReleaseDiff", top: int) -> None:
    columns = ["table", "rows_before", "rows_after", "gained", "lost", "moved"]
    rows = [[table.table, *(f"{getattr(table, name):,}" for name in columns[1:])] for table in diff.tables]
    print_table(columns, rows)
    if diff.partitions_changed is not None:
        say(f"Partitions made from other inputs: {diff.partitions_changed:,}")
    print_text("What they were made from is the same." if not diff.causes else "What they were made from differs:")
    for cause in diff.causes[:_CAUSES]:
        print_text(f"  {cause}")
    if len(diff.causes) > _CAUSES:
        print_text(f"  and {len(diff.causes) - _CAUSES:,} more (--format json)")
    if not diff.groups:
        return
    shown = diff.groups[: top or None]
    say("\nAgent points, the largest change of the best first")
    print_table(
        ["hardware", "model", "scenario", "gained", "lost", "moved", "turns by\nup to, %",
         "best tasks/h\nper GPU", "change\n%", "because of"],
        [
            [group.hardware, group.model, group.scenario, f"{group.gained:,}", f"{group.lost:,}", f"{group.moved:,}",
             _percent(group.turn_latency_change), f"{_figure(group.best_before)} > {_figure(group.best_after)}",
             _percent(group.best_change), ", ".join(group.because) or "-"]
            for group in shown
        ],
        importance=[0, 0, 0, 6, 5, 4, 3, 2, 0, 1],
    )  # fmt: skip
    if len(shown) < len(diff.groups):
        print_text(f"{len(diff.groups):,} GPUs, models and scenarios differ: --top 0 shows all.")


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _percent(fraction: float | None) -> str:
    return "-" if fraction is None else f"{100 * fraction:+.3g}" if fraction else "0"


@releases_app.command("verify")
def verify_command(
    release_id: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", help="A release that `releases list` shows. Without: the current one."),
    ] = None,
    lake: LakeOption = DEFAULT_LAKE,
) -> None:
    """Read every file of a release and tell those that are not what was written. Exit 1 if there are any.

    `build --full` publishes a release that is whole again.
    """
    from pipelines.lake.verify import verify_release

    verified = verify_release(lake, release_id)
    for path in verified.damaged:
        say(f"damaged {path}")
    for path in verified.foreign:
        say(f"foreign {path}")
    if not verified.whole:
        added = f" and {len(verified.foreign):,} were not written with it" if verified.foreign else ""
        say(
            f"{len(verified.damaged):,} of {verified.files:,} files of release {verified.release_id} are not what was "
            f"written{added}: run `agent-pareto build --full`, or roll back to a release that is whole.",
            err=True,
        )
        raise typer.Exit(1)
    if verified.unhashed:
        names = ", ".join(verified.unhashed)
        say(f"An earlier version made the release; it kept no hash of {names}.", err=True)
    say(f"All {verified.files:,} files of release {verified.release_id} are as they were written.")


@releases_app.command("relink")
def relink_command(lake: LakeOption = DEFAULT_LAKE) -> None:
    """After a lake was moved or copied: make its DuckDB file show the release where it is now."""
    from pipelines.lake.retention import relink

    release = relink(lake)
    say(f"{lake.resolve()} shows release {release.id}.")
