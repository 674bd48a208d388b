"""Cache survival (Step 5, MODEL section 7): which share of the turns still finds its session's prefix in memory."""

from transforms.cache.constant import constant_hit_rate
from transforms.cache.models import (
    CacheLoad,
    CacheModel,
    CacheOutcome,
    FixedHitRate,
    LeastRecentlyUsed,
    TimeToLive,
    settle_hit_rate,
)
from transforms.cache.pauses import PauseDistribution
from transforms.cache.shape import HeldSquares, SessionShape, session_shape

__all__ = [
    "CacheLoad",
    "CacheModel",
    "CacheOutcome",
    "FixedHitRate",
    "HeldSquares",
    "LeastRecentlyUsed",
    "PauseDistribution",
    "SessionShape",
    "TimeToLive",
    "constant_hit_rate",
    "session_shape",
    "settle_hit_rate",
]
