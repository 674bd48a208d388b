"""Objects that are written only while they are as they were read: If-Match and If-None-Match of S3."""

import json
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.lake.places import file_system, key_of

#: HTTP: the condition does not hold, or another conditional write of the object was under way.
_REFUSED = (409, 412)
_NOT_THERE = 404


@dataclass(frozen=True)
class Stored:
    """An object as it was read: its bytes, and the tag that every write changes; None where there is no object."""

    content: bytes = b""
    tag: str | None = None

    def json(self) -> dict[str, Any]:
        """The JSON object in it; empty where it holds none."""
        try:
            found = json.loads(self.content)
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}


def read_object(path: Path) -> Stored:
    """The object at a path on a store. Raises ``OSError`` where the store does not give it."""
    from fsspec.asyn import sync

    store = file_system(path)
    bucket, _, key = key_of(path).partition("/")

    async def read() -> Stored:
        try:
            answer = await store._call_s3("get_object", Bucket=bucket, Key=key)
        except FileNotFoundError:
            return Stored()
        async with answer["Body"] as body:
            return Stored(await body.read(), answer["ETag"])

    found: Stored = sync(store.loop, read)
    return found


def write_if_unchanged(path: Path, content: dict[str, Any], seen: Stored) -> Stored | None:
    """Writes the object if it is still as ``seen``, else gives None. Raises ``OSError`` where the store refuses."""
    data = json.dumps(content, indent=2).encode()
    condition = {"IfNoneMatch": "*"} if seen.tag is None else {"IfMatch": seen.tag}
    bucket, _, key = key_of(path).partition("/")
    try:
        answer = file_system(path).call_s3("put_object", Bucket=bucket, Key=key, Body=data, **condition)
    except OSError as error:
        if _status(error) not in (*_REFUSED, _NOT_THERE):
            raise
        now = read_object(path)  # a request that was sent again after its answer was lost meets its own object
        return now if now.content == data else None
    finally:
        file_system(path).invalidate_cache()
    return Stored(data, answer["ETag"])


def overwrite(path: Path, content: dict[str, Any]) -> Stored:
    """Writes the object whatever it is: for stores that heed no conditions."""
    file_system(path).pipe_file(key_of(path), json.dumps(content, indent=2).encode())
    return read_object(path)


def has_conditions(root: Path) -> bool:
    """Whether the store of a lake heeds conditions, which is tried on an object of its own."""
    path = root / f".conditions-{uuid.uuid4().hex}"
    try:
        first = write_if_unchanged(path, {"try": 1}, Stored())
        if first is None or write_if_unchanged(path, {"try": 2}, Stored()) is not None:
            return False
        wrong = Stored(b"", '"00000000000000000000000000000000"')
        return write_if_unchanged(path, {"try": 3}, wrong) is None and (
            write_if_unchanged(path, {"try": 4}, first) is not None
        )
    except OSError as error:
        if _status(error) in (400, 501):  # the store does not know the header
            return False
        raise
    finally:
        store = file_system(path)
        if store.exists(key_of(path)):
            store.rm_file(key_of(path))


def _status(error: OSError) -> int | None:
    """The HTTP status that a store's refusal came with."""
    response = getattr(error.__cause__, "response", None) or {}
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return 412 if isinstance(error, FileExistsError) else int(status) if isinstance(status, int) else None
