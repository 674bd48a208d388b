"""What a folder of tables holds: the files to read, and what is passed over with why."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipelines.lake.layout import CURRENT, DATABASE, RELEASE_ID_PATTERN, STAGING_PREFIX
from schemas.sidecar import SIDECAR_NAME
from transforms.sources.aiconfigurator_drafts import CONFIG_NAME

#: Files of these endings in a folder are taken for tables: one that cannot be read is an error.
TABLE_SUFFIXES: Final = (".csv", ".json", ".jsonl", ".parquet")
#: Read with the tables beside them, never by themselves.
COMPANIONS: Final = (SIDECAR_NAME, CONFIG_NAME)
#: Files that are named in the one line about what was passed over.
NAMED: Final = 5
NO_RESULTS: Final = "no results of a form that is known"


@dataclass(frozen=True)
class PassedOver:
    """A file or folder within a folder of tables that is not read; ``why`` in a few words."""

    path: str
    why: str


def is_lake(folder: Path) -> bool:
    """Whether the folder is a lake of this program, also one whose first release is not whole."""
    releases = folder / "releases"
    if not releases.is_dir():
        return False
    if (folder / CURRENT).exists() or (folder / DATABASE).exists():
        return True
    names = [path.name for path in releases.iterdir()]
    return any(name.startswith(STAGING_PREFIX) or RELEASE_ID_PATTERN.fullmatch(name) for name in names)


def walk(folder: Path) -> Iterator[Path | PassedOver]:
    """All files below the folder, each itself or passed over; a hidden folder, a lake and a link count as one."""

    def passed(path: Path, why: str) -> PassedOver:
        return PassedOver(path.relative_to(folder).as_posix(), why)

    for name, folders, files in os.walk(folder):
        here = Path(name)
        for below in sorted(folders):
            path = here / below
            if below.startswith("."):
                why = "hidden"
            elif path.is_symlink():
                why = "a link to a folder"
            elif is_lake(path):
                why = "a lake"
            else:
                continue
            folders.remove(below)
            yield passed(path, why)
        for file in files:
            path = here / file
            if file.startswith("."):
                yield passed(path, "hidden")
            elif not path.is_file():
                yield passed(path, "no file")
            elif file not in COMPANIONS:
                yield path


def has_table_suffix(path: Path) -> bool:
    """Whether the name says that the file is a table."""
    return path.name.removesuffix(".gz").endswith(TABLE_SUFFIXES)


def passed_over_in_words(passed: Sequence[PassedOver]) -> str:
    """One line that names what was passed over; empty where nothing was."""
    if not passed:
        return ""
    # what holds no results is told by its name, the rest by what it is
    names = [item.path if item.why == NO_RESULTS else f"{item.path} ({item.why})" for item in passed]
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return f"Passed over, no results: {', '.join(names[:NAMED])}{more}."
