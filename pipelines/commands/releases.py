"""`agent-pareto releases`: list, compare, verify, roll back, prune and relink the releases of a lake."""

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pipelines.commands.shared_options import DEFAULT_LAKE, LakeOption
from pipelines.terminal import say

if TYPE_CHECKING:
    from pipelines.lake.reader import Release

GRACE_MINUTES = 60.0

releases_app = typer.Typer(help="The releases of a lake.", no_args_is_help=True)


@releases_app.callback()
def _group() -> None:
    """The releases of a lake."""


@releases_app.command("list")
def list_command(
    lake: LakeOption = DEFAULT_LAKE,
    output_format: Annotated[
        Literal["table", "json"], typer.Option("--format", help="json: also the rows of each table.")
    ] = "table",
) -> None:
    """List the releases, oldest first, and which one is current."""
    import sys

    from pipelines.lake.formats import write_json, write_table
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
        row[1] = "current" if row[1] else ""
        row[5] = sum(row[5].values()) if isinstance(row[5], dict) else None
    write_table(sys.stdout, columns, rows, max_rows=0)


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
    output_format: Annotated[Literal["table", "json"], typer.Option("--format", help="How it is shown.")] = "table",
) -> None:
    """Compare two releases: rows, and points gained, lost and moved.

    A point is a configuration at one load and scenario. Exit 1, with an alarm, when an input file gives fewer usable
    rows in AFTER than in BEFORE.
    """
    import sys

    from pipelines.commands.output import print_json
    from pipelines.lake.diff import diff_releases
    from pipelines.lake.formats import write_table

    diff = diff_releases(lake, before, after)
    if output_format == "json":
        print_json(diff.to_json())
    else:
        columns = ["table", "rows_before", "rows_after", "gained", "lost", "moved"]
        rows = [[getattr(table, name) for name in columns] for table in diff.tables]
        write_table(sys.stdout, columns, rows, max_rows=0)
        if diff.partitions_changed is not None:
            say(f"Partitions made from other inputs: {diff.partitions_changed:,}")
    for file in diff.lost_rows:
        say(
            f"ALARM: {file.path} ({file.tool or 'no tool'}) gives {file.rows_after:,} usable rows, "
            f"{file.rows_before:,} before.",
            err=True,
        )
    if diff.lost_rows:
        raise typer.Exit(1)


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
