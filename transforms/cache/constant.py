"""The hit rate of caches that ask for no load."""

from schemas.caches import FixedCache
from schemas.scenarios import Scenario
from transforms.cache.shape import scenario_pauses, unbounded_hit_rate


def constant_hit_rate(scenario: Scenario) -> float:
    """h: as stated, or with a time to live the share of the pauses that are no longer."""
    if isinstance(scenario.cache, FixedCache):
        return scenario.cache.hit_rate
    return unbounded_hit_rate(scenario) * float(scenario_pauses(scenario).share_within(scenario.cache.kept_s))
