"""Models of one architecture: rows of one say what an engine does with the other."""

from collections.abc import Iterable

from schemas.models import ModelSpec

#: What tells models apart that an engine serves alike: their names, where they come from, and how a checkpoint
#: stores what a deployment states for itself.
_OF_A_CHECKPOINT = frozenset(
    {"slug", "name", "aliases", "source", "max_context_tokens", "stored", "stored_bytes", "kv_dtype"}
)


def architectures(models: Iterable[ModelSpec]) -> dict[str, str]:
    """For each model's slug that of the first model with the same layers, attention, experts and parameters."""
    first: dict[str, str] = {}
    return {spec.slug: first.setdefault(_sheet(spec), spec.slug) for spec in models}


def _sheet(spec: ModelSpec) -> str:
    """The model's sheet without what is a checkpoint's own; drafting layers are no part of what all of them run."""
    same = spec.model_dump(exclude=set(_OF_A_CHECKPOINT))
    same["parameters"].pop("mtp")
    return repr(same)
