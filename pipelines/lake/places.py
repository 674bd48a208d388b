"""Where a lake may lie: a folder, or a prefix of an object store such as ``s3://bucket/lake``.

A lake is given as a ``Path`` everywhere. Of the two slashes of a URL a ``Path`` keeps one (``s3:/bucket/lake``), which
tells it from any folder that is given in earnest.
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from schemas.errors import UserError
from schemas.options import without_credentials

if TYPE_CHECKING:
    import duckdb

URL = re.compile(r"([a-z][a-z0-9+.-]*):/{1,2}(?=[^/])")
#: The stores that are tried, each with the extra that brings its fsspec file system.
EXTRAS = {"s3": "s3"}


def is_remote(place: Path) -> bool:
    """Whether the place is on an object store."""
    return URL.match(str(place)) is not None


def shown(place: Path) -> str:
    """The place as it is told to a user: absolute, or the URL."""
    return url_of(place) if is_remote(place) else str(place.resolve())


def url_of(place: Path) -> str:
    """The URL of a place on an object store."""
    return URL.sub(lambda match: f"{match[1]}://", str(place), count=1).rstrip("/")


def remote_path(place: Path) -> Path:
    """The place as a path that reads from its store: a ``UPath``, which has the methods of a ``Path``.

    Raises ``UserError`` for stores that are not known, for credentials in the URL, and where the package for a store is
    missing.
    """
    try:
        url = url_of(without_credentials(place))
    except ValueError as error:
        raise UserError(f"A lake on an object store: {error}.") from None
    scheme = url.partition("://")[0]
    if scheme not in EXTRAS:
        known = ", ".join(f"{name}://" for name in EXTRAS)
        raise UserError(f"{url}: a lake is a folder or lies at {known}; {scheme}:// is not known.")
    try:
        from upath import UPath

        path = UPath(url)
        path.fs  # noqa: B018 - imports the package of the store
    except ImportError:
        extra = EXTRAS[scheme]
        raise UserError(f"A lake at {scheme}:// needs a package more: pip install 'agent-pareto[{extra}]'.") from None
    return cast(Path, path)


def file_system(path: Path) -> Any:
    """The fsspec file system of a path that ``remote_path`` gave."""
    return cast(Any, path).fs


def register_store(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Lets DuckDB read what lies beside a path that is on an object store."""
    if is_remote(path):
        connection.register_filesystem(file_system(path))


def readable(path: Path) -> Path | io.BytesIO:
    """What Polars reads: the path itself, or the content of an object."""
    return io.BytesIO(path.read_bytes()) if is_remote(path) else path


def key_of(path: Path) -> str:
    """The path as its file system names it, without the scheme."""
    return str(cast(Any, path).path)
