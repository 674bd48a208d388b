"""What is taken away from a lake on an object store, and what a store's refusals mean."""

from collections.abc import Iterator
from contextlib import contextmanager

from pipelines.lake.layout import MANIFEST, Lake
from pipelines.lake.places import file_system, key_of, refusals_explained
from schemas.errors import UserError


def remove_stored_release(lake: Lake, release_id: str) -> None:
    """Deletes a release; its manifest first, so that it is none from then on."""
    store, folder = file_system(lake.root), lake.release(release_id)
    with store_failures_explained(lake):
        if store.exists(key_of(folder / MANIFEST)):
            store.rm_file(key_of(folder / MANIFEST))
        store.invalidate_cache()
        if store.exists(key_of(folder)):
            store.rm(key_of(folder), recursive=True)
        store.invalidate_cache()


@contextmanager
def store_failures_explained(remote: Lake) -> Iterator[None]:
    """What a store refuses while a lake is written, as a sentence."""
    try:
        with refusals_explained(remote.root):
            yield
    except UserError as error:
        if error.__cause__ is None:
            raise
        raise UserError(f"{error} What was published there before is unchanged.") from error.__cause__
