"""What a question changes, and what the change moved, in words."""

from collections.abc import Callable
from typing import Any, Final

from pydantic import ValidationError

from pipelines.answering.shapes import shape_of
from schemas.scenarios import Scenario
from transforms.cache.choice import evicts
from transforms.planning.changes import Circumstances, follows
from transforms.planning.what_if import MovedParts

_QUANTITIES: Final = (
    "think_time_s", "turns", "initial_prompt_tokens", "new_tokens_per_turn", "output_tokens_per_turn",
    "sessions", "gpus",
)  # fmt: skip
#: Options of a build that a question may change, in words.
_OPTIONS: Final[dict[str, Callable[[Any], str]]] = {
    "parked_kv": str, "idle_kv": str, "kv_context": str,
    "host_memory_bytes_per_gpu": lambda value: f"{value / 1e9:g} GB",
}  # fmt: skip


def changes_in_words(own: Scenario, before: Circumstances, after: Circumstances) -> str:
    """What differs: ``think_time_s 0.5 > 10.0, idle_kv resident > offloaded``."""
    old, new = before.scenario, after.scenario
    said = [
        f"{name} {getattr(old, name):,} > {getattr(new, name):,}"
        for name in _QUANTITIES
        if getattr(old, name) != getattr(new, name)
    ]
    if why := follows(own, new):
        said.append(f"first_turn_new_tokens {own.first_turn_new_tokens:,} > {new.first_turn_new_tokens:,} ({why})")
    said += [
        f"{name} {getattr(old, name) or '-'} > {getattr(new, name) or '-'}"
        for name in ("routing", "replicas")
        if getattr(old, name) != getattr(new, name)
    ]
    if old.cache != new.cache:
        said.append(f"cache {old.cache} > {new.cache}")
    for name, text in _OPTIONS.items():
        values = [text(getattr(side.options, name)) for side in (before, after)]
        if values[0] != values[1]:
            said.append(f"{name} {' > '.join(values)}")
    rules = ["thrash" if evicts(side.scenario, side.options) else "wait" for side in (before, after)]
    if rules[0] != rules[1]:
        said.append(f"sessions over capacity {' > '.join(rules)}")
    links = [sorted({gpu.host_link_bytes_per_s for gpu in side.hardware}) for side in (before, after)]
    if links[0] != links[1]:
        said.append(f"host link > {links[1][0] / 1e9:g} GB/s")
    if after.kv_dtype is not None:
        said.append(f"KV in {after.kv_dtype} alone")
    return ", ".join(said) or "nothing differs from the scenario"


def moved_in_words(parts: MovedParts) -> str:
    """Which of service, queue and memory the change moved, with the figures of all three."""
    names = {"service_ms": "service", "queue_ms": "queue", "memory_sessions_per_gpu": "memory"}
    moved = [names[name] for name in parts.moved]
    changed = f"the change moves {', '.join(moved)}" if moved else "neither service, queue nor memory moves"
    service, queue, memory = (
        _pair(parts.before[name] * scale, parts.after[name] * scale)
        for name, scale in (("service_ms", 1e-3), ("queue_ms", 1e-3), ("memory_sessions_per_gpu", 1.0))
    )
    return (
        f"{parts.hardware} {shape_of(parts.replica)}: {changed}. Turns take {service} s at the lightest load and "
        f"{queue} s more at the load of most tasks; memory holds {memory} sessions a GPU."
    )


def refused_changes_in_words(error: ValidationError) -> str:
    """What a scenario or the options have against their changes, a line a problem, by the names of the options."""
    # what the problem is with, and the option that it comes from
    renamed = {"cache": "cache_hit_rate", "first_turn_new_tokens": "new_tokens_per_turn"}
    said = []
    for problem in error.errors(include_url=False):
        text = str(problem["msg"]).removeprefix("Value error, ")
        field = renamed.get(str(problem["loc"][0]), str(problem["loc"][0])) if problem["loc"] else None
        if field == "cache_hit_rate" and problem["loc"][-1] == "kept_s":
            field = "kept_s"
        option = "" if field is None else f"--{field.replace('_', '-')}: "
        said.append(f"{option}{text[:1].lower() if option else text[:1]}{text[1:]}.")
    return "\n".join(said)


def _pair(before: float, after: float) -> str:
    old, new = f"{before:.3g}", f"{after:.3g}"
    return new if old == new else f"{old} > {new}"
