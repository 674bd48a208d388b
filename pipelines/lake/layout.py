"""Where everything of a lake lies, and how releases are named. No other module builds a lake path."""

import json
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pipelines.lake.places import is_remote, remote_path
from schemas.errors import UserError

MANIFEST = "manifest.json"
TABLES = "tables.json"
CHECKSUMS = "SHA256SUMS"
DATABASE = "agent_pareto.duckdb"
CURRENT = "current.json"

STAGING_PREFIX = ".staging-"
DELETING_PREFIX = ".deleting-"
ASIDE_PREFIX = ".aside-"
"""Files that are being written beside their place; who finds one while holding the publish lock may delete
it.
"""

#: What no path of a lake may have, and what DuckDB makes of it.
UNREADABLE = {"?": "DuckDB takes what follows for options", "\\": "DuckDB takes it for a part of a pattern"}

RELEASE_ID_FORMAT = "%Y%m%dT%H%M%S.%fZ"
RELEASE_ID_PATTERN = re.compile(r"\d{8}T\d{6}\.\d{6}Z")


@dataclass(frozen=True)
class Lake:
    """The paths of one lake. ``root`` is absolute and free of links; on an object store a ``UPath``."""

    root: Path

    @classmethod
    def at(cls, path: Path) -> "Lake":
        """The lake at a path as a user gives it, relative, through a link or a URL; it need not exist."""
        return cls(remote_path(path) if is_remote(path) else path.expanduser().resolve())

    @property
    def remote(self) -> bool:
        """Whether the lake is on an object store."""
        return is_remote(self.root)

    @property
    def releases(self) -> Path:
        return self.root / "releases"

    @property
    def database(self) -> Path:
        return self.root / DATABASE

    @property
    def current(self) -> Path:
        return self.root / CURRENT

    @property
    def publish_lock(self) -> Path:
        return self.root / ".publish.lock"

    def release(self, release_id: str) -> Path:
        """Folder of a release. Raises ``UserError`` if the text cannot be a release ID (so no path can be
        smuggled in).
        """
        if RELEASE_ID_PATTERN.fullmatch(release_id) is None:
            raise UserError(f"{release_id!r} is not a release ID; `releases list` shows those of the lake.")
        return self.releases / release_id

    def aside(self, final: Path) -> Path:
        """Where to write a file before it replaces ``final``: same folder, so the replacement is one step."""
        return final.with_name(ASIDE_PREFIX + final.name)

    def release_ids(self) -> list[str]:
        """IDs of the complete releases, oldest first. A folder without a manifest or behind a link is not a
        release.
        """
        if not self.releases.is_dir():
            return []
        return sorted(
            path.name
            for path in self.releases.iterdir()
            if RELEASE_ID_PATTERN.fullmatch(path.name) and not path.is_symlink() and (path / MANIFEST).is_file()
        )


def check_place(lake: Lake) -> None:
    """Raises ``UserError`` for a path that DuckDB cannot read from, however it is written."""
    for character, why in UNREADABLE.items():
        if character in str(lake.root):
            raise UserError(
                f"The path of a lake may not have a {character} in it ({why}): {lake.root}. Choose another with --out, "
                "and move a lake that is there."
            )
    try:
        str(lake.root).encode()
    except UnicodeEncodeError:
        shown = str(lake.root).encode("utf-8", "backslashreplace").decode()
        raise UserError(
            f"The path of a lake must be UTF-8 text: {shown}. Choose another with --out, and move a lake that is there."
        ) from None


def utc_now() -> datetime:
    """The time by the machine's clock, in UTC."""
    return datetime.now(UTC)


def next_release_id(taken: Iterable[str], now: datetime) -> str:
    """The ID of a release made ``now``; greater than every ID ``taken``, even if the clock has gone
    backwards.
    """
    newest = max(taken, default=None)
    release_id = now.astimezone(UTC).strftime(RELEASE_ID_FORMAT)
    if newest is None or release_id > newest:
        return release_id
    after = datetime.strptime(newest, RELEASE_ID_FORMAT) + timedelta(microseconds=1)
    return after.strftime(RELEASE_ID_FORMAT)


def read_json_file(path: Path) -> dict[str, Any]:
    """A JSON object from a file of the lake. Raises ``UserError`` if it is unreadable or not an object."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise damaged(path, f"cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"is no JSON: {error}") from error
    if not isinstance(content, dict):
        raise damaged(path, "is not a JSON object")
    return content


def damaged(path: Path, why: str) -> UserError:
    """What to say of a file of a lake that is not what was written, with the command that repairs."""
    if path.name == CURRENT:
        lake = shlex.quote(str(path.parent))
        return UserError(
            f"{path} {why}. `agent-pareto releases rollback ID --lake {lake}` writes it anew, and so does a build; "
            f"`agent-pareto releases list --lake {lake}` shows the IDs."
        )
    folder = next((parent for parent in path.parents if RELEASE_ID_PATTERN.fullmatch(parent.name)), path.parent)
    return UserError(f"{path} {why}. {repair(folder)}")


def repair(release: Path) -> str:
    """The sentence that names the commands by which readers get a whole release again."""
    lake = shlex.quote(str(release.parent.parent))
    return (
        f"It is damaged: `agent-pareto build --full --out {lake}`, with the options of the last build, publishes a "
        f"whole release; `agent-pareto releases rollback ID --lake {lake}` goes back to another."
    )
