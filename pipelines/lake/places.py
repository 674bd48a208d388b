"""Where a lake may lie: a folder, or a prefix of an object store such as ``s3://bucket/lake``.

A lake is given as a ``Path`` everywhere. Of the two slashes of a URL a ``Path`` keeps one (``s3:/bucket/lake``), which
tells it from any folder that is given in earnest.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from schemas.errors import UserError
from schemas.options import without_credentials

if TYPE_CHECKING:
    import duckdb

URL = re.compile(r"([a-z][a-z0-9+.-]*):/{1,2}(?=[^/])")
#: The stores that are tried, each with the extra that brings its fsspec file system.
EXTRAS = {"s3": "s3"}
#: A URL that names no bucket, as a ``Path`` keeps it.
NO_BUCKET = re.compile(f"({'|'.join(EXTRAS)}):/*")
#: Places that have answered, each with its file system.
_answered: set[tuple[Any, str]] = set()


def is_remote(place: Path) -> bool:
    """Whether the place is on an object store."""
    return URL.match(str(place)) is not None or NO_BUCKET.fullmatch(str(place)) is not None


def shown(place: Path) -> str:
    """The place as it is told to a user: absolute, or the URL."""
    return url_of(place) if is_remote(place) else str(place.resolve())


def url_of(place: Path) -> str:
    """The URL of a place on an object store."""
    return URL.sub(lambda match: f"{match[1]}://", str(place), count=1).rstrip("/")


def remote_path(place: Path) -> Path:
    """The place as a path that reads from its store: a ``UPath``, which has the methods of a ``Path``.

    Raises ``UserError`` for stores that are not known, for a URL without a bucket or with credentials, where the
    package for a store is missing, and where the store does not answer, refuses, or has no such bucket.
    """
    if bare := NO_BUCKET.fullmatch(str(place)):
        raise UserError(f"{bare[1]}:// names no bucket: give the lake as {bare[1]}://bucket/prefix.")
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
    _ask(cast(Path, path))
    return cast(Path, path)


def _ask(path: Path) -> None:
    """One request, once for each place: a store that does not answer is told from one that holds no lake."""
    store, key = file_system(path), key_of(path)
    if (store, key) in _answered:
        return
    bucket, _, prefix = key.partition("/")
    with refusals_explained(path):
        store.call_s3("list_objects_v2", Bucket=bucket, Prefix=prefix, MaxKeys=1)
    _answered.add((store, key))


@contextmanager
def refusals_explained(place: Path) -> Iterator[None]:
    """What a store refuses, and that it does not answer, as a sentence that says what to do."""
    try:
        yield
    except (OSError, _client_errors()) as error:
        raise UserError(f"The lake {url_of(place)} cannot be reached or written: {refusal(error, place)}") from error


def refusal(error: BaseException, place: Path | None = None) -> str:
    """Why a store gave nothing, and what to do about it."""
    from botocore import exceptions as client

    if isinstance(error, client.NoCredentialsError | client.PartialCredentialsError | client.ProfileNotFound):
        return (
            f"the object store's credentials are missing ({_sentence(error)}). Set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE to a profile of ~/.aws."
        )
    if isinstance(error, client.HTTPClientError | client.ConnectionError):  # the first has all time-outs but one
        return f"no answer ({_sentence(error)}). Check the network, and AWS_ENDPOINT_URL_S3 if it is set."
    if isinstance(error, FileNotFoundError) and place is not None:
        bucket = key_of(place).partition("/")[0]
        return f"{_sentence(error)}. Correct the URL, or create what is missing; the bucket is {bucket}."
    if isinstance(error, PermissionError):
        return (
            f"access is denied ({_sentence(error)}). Readers need s3:ListBucket and s3:GetObject, a build "
            "s3:PutObject and s3:DeleteObject too; check AWS_PROFILE and the keys."
        )
    return f"{_sentence(error)}."


def is_refusal(error: BaseException) -> bool:
    """Whether an error is the S3 client's own: nothing that a file system of this machine raises."""
    return _client_errors() is not OSError and isinstance(error, _client_errors())


def _sentence(error: BaseException) -> str:
    text = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return re.sub(r"\?[^\s\"]*", "", " ".join(text.split())).rstrip(".")  # without the query of a URL


def _client_errors() -> type[Exception]:
    """What the S3 client raises beside ``OSError``: no credentials, no such endpoint."""
    try:
        from botocore.exceptions import BotoCoreError
    except ImportError:
        return OSError
    errors: type[Exception] = BotoCoreError
    return errors


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
