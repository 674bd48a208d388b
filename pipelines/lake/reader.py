"""Find the releases of a lake. Reads only; imports neither Polars nor DuckDB."""

import difflib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pipelines.lake.layout import CURRENT, MANIFEST, RELEASE_ID_PATTERN, Lake, check_place, damaged, read_json_file
from schemas.errors import UserError


@dataclass(frozen=True)
class Release:
    """A complete release: its folder is absolute, and nothing in it ever changes."""

    id: str
    path: Path

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """What ``manifest.json`` says: id, created_at, previous, config, inputs, tables, …"""
        return read_json_file(self.path / MANIFEST)


def current_id(lake: Lake) -> str | None:
    """The ID in ``current.json``; None if there is no such file, or nothing has been published yet."""
    if not lake.current.exists():
        return None
    content = read_json_file(lake.current)
    release_id = content.get("release")
    if release_id is None and "builder" in content:  # on a store, where a lock was taken over before that
        return None
    if not isinstance(release_id, str) or RELEASE_ID_PATTERN.fullmatch(release_id) is None:
        raise damaged(lake.current, "does not name a release")
    return release_id


def last_builder(lake: Lake) -> int:
    """The number of the builder whose release was published last, 0 where none says: a later one has a greater one."""
    try:
        number = read_json_file(lake.current).get("builder")
    except UserError:
        return 0
    return number if isinstance(number, int) and not isinstance(number, bool) else 0


def current_release(lake_path: Path) -> Release:
    """The release that readers are to use. Raises ``UserError`` saying what to do where there is none."""
    lake = Lake.at(lake_path)
    if not lake.root.is_dir():
        raise UserError(f"There is no lake at {lake_path}: run `agent-pareto build --out {lake_path}` first.")
    check_place(lake)
    release_id = current_id(lake)
    if release_id is None:
        if lake.release_ids():
            raise UserError(f"{lake_path} has releases but no {CURRENT}: choose one with `releases rollback ID`.")
        raise UserError(f"{lake_path} holds no published release: run `agent-pareto build --out {lake_path}` first.")
    if release_id not in lake.release_ids():
        raise UserError(
            f"The current release {release_id} of {lake_path} is gone, or not complete: choose another with "
            f"`agent-pareto releases rollback ID`, or run `agent-pareto build --out {lake_path}`."
        )
    return Release(release_id, lake.release(release_id))


def find_release(lake_path: Path, release_id: str) -> Release:
    """The release with this ID. Raises ``UserError`` naming the nearest ones if it is not there."""
    lake = Lake.at(lake_path)
    path = lake.release(release_id)
    known = lake.release_ids()
    if release_id not in known:
        near = difflib.get_close_matches(release_id, known, n=3, cutoff=0.0)
        hint = f"; the nearest are {', '.join(near)}" if near else ""
        raise UserError(f"{lake_path} has no complete release {release_id}{hint}.")
    return Release(release_id, path)


def list_releases(lake_path: Path) -> list[Release]:
    """All complete releases, oldest first."""
    lake = Lake.at(lake_path)
    return [Release(release_id, lake.release(release_id)) for release_id in lake.release_ids()]
