"""A build whose lake is on an object store: in a working lake of this machine, then copied."""

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from pipelines.lake.layout import Lake
from pipelines.lake.places import is_remote, url_of
from pipelines.lake.reader import current_id, find_release
from pipelines.lake.retention import prune
from pipelines.object_store.copies import fetch_current, publish_copy
from pipelines.object_store.lock import hold_remote
from pipelines.object_store.retention import tidy
from pipelines.progress import progress
from pipelines.user_cache import user_cache
from schemas.options import BuildOptions, RunOptions


@dataclass(frozen=True)
class Workshop:
    """Where a build works: its options with a lake on this machine, and what ends it.

    ``deliver`` takes the release that the build published there to where the user wants it.
    """

    options: BuildOptions
    run: RunOptions
    deliver: Callable[[str], None]


@contextmanager
def workshop(options: BuildOptions, run: RunOptions) -> Iterator[Workshop]:
    """For a lake in a folder that folder itself; for one on an object store a working lake in the user's cache.

    The working lake has the store's current release and nothing else, so that unchanged partitions are carried over.
    The store's lock is held while the block lasts. Raises ``UserError`` where the store cannot be reached.
    """
    if not is_remote(options.out):
        yield Workshop(options, run, lambda release_id: None)
        return
    remote, local = Lake.at(options.out), Lake.at(working_lake(options.out))
    with hold_remote(remote.root, run.wait_s, lambda sentence: progress().start(sentence, None)) as lock:
        tidy(remote, lock)
        fetch_current(remote, local)
        before_id = current_id(local)
        before = find_release(local.root, before_id) if before_id is not None else None

        def deliver(release_id: str) -> None:
            publish_copy(find_release(local.root, release_id), before, remote, lock)
            prune(local.root, keep=1, grace=timedelta(0))
            if run.keep is not None:
                prune(options.out, run.keep, lock=lock)

        # the working lake keeps one release, whatever the store keeps
        yield Workshop(options.model_copy(update={"out": local.root}), run.model_copy(update={"keep": None}), deliver)


def working_lake(place: Path) -> Path:
    """The folder in the user's cache for the lake at a URL."""
    url = url_of(place)
    name = re.sub(r"[^a-z0-9]+", "-", url.lower()).strip("-")[-60:]
    return user_cache() / "lakes" / f"{name}-{hashlib.sha256(url.encode()).hexdigest()[:12]}"
