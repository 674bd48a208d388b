"""Which model a scenario's cache follows under a build's options, and the hit rate where no load changes it."""

from schemas.caches import FixedCache, TimeToLiveCache
from schemas.options import MappingOptions
from schemas.scenarios import Scenario
from transforms.cache.models import LeastRecentlyUsed
from transforms.cache.routing import is_routed, recency
from transforms.cache.shape import scenario_pauses, unbounded_hit_rate


def on_own_replica(scenario: Scenario) -> Scenario:
    """The scenario with the turns of a session on one replica."""
    return scenario.model_copy(update={"routing": "sticky", "replicas": None})


def constant_hit_rate(scenario: Scenario) -> float:
    """h where memory evicts nothing: as stated; with a time to live the share of the pauses that are no longer;
    else all that can be found. With random routing what is found of a prefix counts by its tokens."""
    routed = is_routed(scenario)
    on_replica = recency(scenario).found if routed else 1.0
    if isinstance(scenario.cache, FixedCache):
        return scenario.cache.hit_rate * on_replica
    unbounded = unbounded_hit_rate(scenario)
    if isinstance(scenario.cache, TimeToLiveCache):
        if routed:  # the turns between two on one replica are short beside the pauses
            return unbounded * float(recency(scenario).found_within(scenario.cache.kept_s))
        return unbounded * float(scenario_pauses(scenario).share_within(scenario.cache.kept_s))
    return unbounded * on_replica


def evicts(scenario: Scenario, options: MappingOptions) -> bool:
    """Whether memory evicts the KV of pausing sessions for that of others, so that the hit rate is an outcome.

    Where idle KV is dropped nothing is left to evict; of a mix all sessions wait.
    """
    if options.idle_kv == "dropped" or scenario.mix is not None:
        return False
    if options.over_capacity is None:
        return scenario.cache.model == "lru"
    return options.over_capacity == "thrash"


def never_misses(scenario: Scenario, options: MappingOptions | None = None) -> bool:
    """Whether every turn finds its prefix, whatever the load."""
    if evicts(scenario, options or MappingOptions()):
        return False
    return constant_hit_rate(scenario) == 1.0


def evicting_model(scenario: Scenario) -> tuple[LeastRecentlyUsed, float]:
    """The scenario's cache where memory evicts, and the most that it finds: a stated rate is found while the memory
    keeps the prefix, a time to live ends before the memory's own."""
    on_replica = recency(scenario).found if is_routed(scenario) else 1.0
    if isinstance(scenario.cache, FixedCache):
        return LeastRecentlyUsed(finite=True), scenario.cache.hit_rate * on_replica
    if isinstance(scenario.cache, TimeToLiveCache):
        return LeastRecentlyUsed(finite=True, longest_s=scenario.cache.kept_s), unbounded_hit_rate(
            scenario
        ) * on_replica
    return LeastRecentlyUsed(finite=True), unbounded_hit_rate(scenario) * on_replica


def host_memory_bytes_per_gpu(scenario: Scenario, options: MappingOptions) -> float:
    """Host memory that keeps what the GPUs evict: the scenario's own, else that of the options."""
    stated = getattr(scenario.cache, "host_memory_gb_per_gpu", 0.0)
    return float(stated * 1e9 or options.host_memory_bytes_per_gpu)
