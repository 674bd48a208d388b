"""Cache survival (Step 5, model.md 7): which share of the turns still finds its session's prefix in memory."""

from transforms.cache.choice import (
    constant_hit_rate,
    evicting_model,
    evicts,
    host_memory_bytes_per_gpu,
    never_misses,
    on_own_replica,
)
from transforms.cache.models import (
    CacheLoad,
    CacheModel,
    CacheOutcome,
    LeastRecentlyUsed,
)
from transforms.cache.pauses import PauseDistribution
from transforms.cache.routing import RandomlyRouted, copies_of_context, is_routed, recency, routed_profile
from transforms.cache.settling import OverHitRates, settle_at_load, settle_hit_rate
from transforms.cache.shape import HeldSums, SessionShape, scenario_pauses, session_shape

__all__ = [
    "CacheLoad",
    "CacheModel",
    "CacheOutcome",
    "HeldSums",
    "LeastRecentlyUsed",
    "OverHitRates",
    "PauseDistribution",
    "RandomlyRouted",
    "SessionShape",
    "constant_hit_rate",
    "copies_of_context",
    "evicting_model",
    "evicts",
    "host_memory_bytes_per_gpu",
    "is_routed",
    "never_misses",
    "on_own_replica",
    "recency",
    "routed_profile",
    "scenario_pauses",
    "session_shape",
    "settle_at_load",
    "settle_hit_rate",
]
