"""What two releases of a lake were made from that is not the same: files, options, catalogue entries, code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pipelines.lake.parts import read_file
from pipelines.lake.views import scan_sql

if TYPE_CHECKING:
    import duckdb

    from pipelines.lake.reader import Release

#: Options that change no point.
_NOT_POINTS: Final = frozenset({"out", "runner", "strict", "threads", "keep", "wait_s", "prices", "tables"})
#: Tables of the catalogues: the column that names an entry, and what such an entry is called.
_CATALOGUES: Final = {"hardware": "GPU", "models": "model", "scenarios": "scenario"}
_KEYS: Final = {"hardware": "hardware", "models": "model", "scenarios": "scenario"}


@dataclass(frozen=True)
class Causes:
    """What differs: ``files`` by path and ``entries`` of catalogues by table and slug, each added, gone or changed.

    ``code``: source files that differ; None where one of the releases does not say what code made it.
    """

    files: dict[str, str]
    options: dict[str, tuple[Any, Any]]
    entries: dict[str, dict[str, str]]
    versions: dict[str, tuple[str, str]]
    code: list[str] | None

    def sentences(self) -> list[str]:
        """A line for each kind of difference; empty where everything is the same."""
        lines = [f"file {path}: {what}" for path, what in self.files.items()]
        lines += [f"option {name}: {_short(old)} > {_short(new)}" for name, (old, new) in self.options.items()]
        lines += [
            f"{_CATALOGUES[table]} {slug}: {what}"
            for table, slugs in self.entries.items()
            for slug, what in slugs.items()
        ]
        lines += [f"{name}: {old} > {new}" for name, (old, new) in self.versions.items()]
        if self.code is None:
            lines.append("code: one of the releases does not say which made it")
        elif self.code:
            more = f" and {len(self.code) - 3:,} more files" if len(self.code) > 3 else ""
            lines.append(f"code: {', '.join(self.code[:3])}{more}")
        return lines

    def of_group(self, hardware: str, model: str, scenario: str, read_from: frozenset[str]) -> list[str]:
        """Which of them bear on one GPU, model and scenario, whose rows are ``read_from`` these files."""
        named = {"hardware": hardware, "models": model, "scenarios": scenario}
        said = {table: self.entries.get(table, {}).get(slug) for table, slug in named.items()}
        entries = [f"{_CATALOGUES[table]} {what}" for table, what in said.items() if what is not None]
        if {"added", "gone"} & set(said.values()):
            return entries
        found = [path for path in self.files if path in read_from] + entries
        found += [f"--{name.replace('_', '-')}" for name in self.options]
        found += list(self.versions)
        if self.code is None or self.code:
            found.append("code")
        return found


def causes(before: Release, after: Release) -> Causes:
    """What the manifests and catalogues of two releases have that is not the same."""
    old, new = before.manifest, after.manifest
    versions = {
        name: (str(old.get(key)), str(new.get(key)))
        for name, key in (("version of the program", "code_version"), ("schema version", "schema_version"))
        if old.get(key) != new.get(key)
    }
    return Causes(
        _files(old, new), _options(old, new), _entries(before, after), versions,
        _code(old.get("code"), new.get("code")),
    )  # fmt: skip


def files_of_groups(connection: duckdb.DuckDBPyConnection, release: Release) -> dict[tuple[str, str], frozenset[str]]:
    """The input files of each GPU and model; empty where the release has no serving points."""
    if not (release.path / "serving_points").is_dir():
        return {}
    scan = scan_sql(
        release.path, "serving_points/*/*/*.parquet", ("hardware", "model"), ("hardware", "model", "source_file")
    )
    rows = connection.execute(
        f"SELECT hardware, model, list(DISTINCT source_file) FROM ({scan}) WHERE source_file IS NOT NULL GROUP BY ALL"
    ).fetchall()
    return {(hardware, model): frozenset(files) for hardware, model, files in rows}


def _files(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, str]:
    had, has = ({str(each["path"]): each.get("sha256") for each in side.get("inputs", [])} for side in (old, new))
    return _differing(had, has)


def _options(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    had, has = old.get("config", {}), new.get("config", {})
    names = [name for name in dict.fromkeys((*had, *has)) if name not in _NOT_POINTS]
    return {name: (had.get(name), has.get(name)) for name in names if had.get(name) != has.get(name)}


def _entries(before: Release, after: Release) -> dict[str, dict[str, str]]:
    found = {}
    for table, key in _KEYS.items():
        sides = []
        for release in (before, after):
            path = release.path / f"{table}.parquet"
            frame = read_file(path) if path.exists() else None
            known = frame is not None and {key, "definition"} <= set(frame.columns)
            sides.append(dict(frame.select(key, "definition").iter_rows()) if frame is not None and known else {})
        found[table] = _differing(*sides)
    return {table: slugs for table, slugs in found.items() if slugs}


def _differing(had: Mapping[str, Any], has: Mapping[str, Any]) -> dict[str, str]:
    """What is added, gone or changed."""
    names = [name for name in sorted({*had, *has}) if had.get(name) != has.get(name)]
    return {name: "added" if name not in had else "gone" if name not in has else "changed" for name in names}


def _code(old: Any, new: Any) -> list[str] | None:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return None
    return sorted(path for path in {*old, *new} if old.get(path) != new.get(path))


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
