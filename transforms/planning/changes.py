"""A scenario with some of its quantities changed, and what serves it with some of its options changed."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from schemas.catalogue import HardwareCatalogue
from schemas.changes import ServingChanges
from schemas.errors import UserError
from schemas.options import MappingOptions
from schemas.scenarios import Scenario
from transforms.cache.choice import evicts

#: Changes that say what the cache becomes.
_CACHE: Final = ("cache_hit_rate", "cache", "kept_s")


@dataclass(frozen=True)
class Circumstances:
    """What points are carried under: the scenario, the build's options, the GPUs, and the KV precision if it is one."""

    scenario: Scenario
    options: MappingOptions
    hardware: HardwareCatalogue
    kv_dtype: str | None = None


def changed_circumstances(before: Circumstances, scenario: Scenario, changes: ServingChanges) -> Circumstances:
    """The circumstances with another scenario and with what serves it changed. Raises ``ValidationError``.

    Host memory is a second tier of a cache that evicts (``lru``), and elsewhere the place of idle KV.
    """
    named = {"parked_kv", "idle_kv", "over_capacity", "kv_context"}
    values: dict[str, Any] = before.options.model_dump() | changes.model_dump(include=named, exclude_none=True)
    if changes.host_memory_gb is not None:
        if evicts(scenario, before.options) and scenario.cache.model == "lru":
            cache = scenario.cache.model_copy(update={"host_memory_gb_per_gpu": changes.host_memory_gb})
            scenario = scenario.model_copy(update={"cache": cache})
        else:
            values["host_memory_bytes_per_gpu"] = 1e9 * changes.host_memory_gb
            values["idle_kv"] = changes.idle_kv or ("offloaded" if changes.host_memory_gb > 0 else "resident")
    elif values["idle_kv"] != "offloaded":
        values["host_memory_bytes_per_gpu"] = 0.0
    hardware = before.hardware
    if changes.host_link_gb_per_s is not None:
        link = {"host_link_bytes_per_s": 1e9 * changes.host_link_gb_per_s}
        hardware = HardwareCatalogue(tuple(gpu.model_copy(update=link) for gpu in hardware))
    return Circumstances(scenario, MappingOptions.model_validate(values), hardware, changes.kv_dtype)


def changed_scenario(scenario: Scenario, changes: Mapping[str, object]) -> Scenario:
    """The scenario with other quantities (fields of a scenario file). Raises ``ValidationError``.

    Distributions keep their form and are scaled to a new mean. The new tokens of turn 1 follow the prompt where they
    are all of it, and the new tokens of later turns where they are the same; they are never more than the changed
    prompt has beside the shared prefix.
    """
    entry = scenario.model_dump(exclude_none=True)
    if scenario.first_turn_new_tokens == scenario.initial_prompt_tokens - scenario.shared_prefix_tokens:
        del entry["first_turn_new_tokens"]
    else:
        if scenario.first_turn_new_tokens == scenario.new_tokens_per_turn and "new_tokens_per_turn" in changes:
            entry["first_turn_new_tokens"] = changes["new_tokens_per_turn"]
        entry["first_turn_new_tokens"] = _at_most_the_prompt(entry, changes)
    quantities = {name: value for name, value in changes.items() if name not in _CACHE}
    if cache := _cache(scenario, changes):
        entry["cache"] = cache
    if changes.get("routing") == "sticky":
        entry.pop("replicas", None)
    return Scenario.model_validate({**entry, **quantities})


def _cache(scenario: Scenario, changes: Mapping[str, object]) -> dict[str, object] | None:
    """The cache of the changed scenario as a file has it; None where it stays. Raises ``UserError``."""
    given = [name for name in ("cache_hit_rate", "cache") if name in changes]
    if len(given) == 2:
        raise UserError("--cache-hit-rate states the hits that --cache would find: give one of them.")
    if ("kept_s" in changes) != (changes.get("cache") == "ttl"):
        raise UserError("--cache ttl and --kept-s go together: give both or neither.")
    if not given:
        return None
    if "cache_hit_rate" in changes:
        return {"model": "fixed", "hit_rate": changes["cache_hit_rate"]}
    kept = {"kept_s": changes["kept_s"]} if "kept_s" in changes else {}
    most = getattr(scenario.cache, "most_hit_rate", None)
    return {"model": changes["cache"], "most_hit_rate": most, **kept}


def _at_most_the_prompt(entry: Mapping[str, Any], changes: Mapping[str, object]) -> object:
    """The entry's new tokens of turn 1, cut to a changed prompt that is one; what is no number is left to be told."""
    given, prompt = entry["first_turn_new_tokens"], changes.get("initial_prompt_tokens", entry["initial_prompt_tokens"])
    if not (isinstance(given, int | float) and isinstance(prompt, int | float)):
        return given
    most = prompt - entry.get("shared_prefix_tokens", 0.0)
    return most if math.isfinite(given) and 0 < most < given else given


def follows(before: Scenario, after: Scenario) -> str | None:
    """Why ``first_turn_new_tokens`` changed, which no option changes; None if it is the same."""
    if before.first_turn_new_tokens == after.first_turn_new_tokens:
        return None
    if before.first_turn_new_tokens == before.initial_prompt_tokens - before.shared_prefix_tokens:
        return "all of the first prompt"
    if after.first_turn_new_tokens == after.new_tokens_per_turn:
        return "as in later turns"
    return "cut to the first prompt"
