"""What becomes of a session's KV while it pauses, and what that costs its next turn (model.md 4)."""

import numpy as np

from schemas.caches import FixedCache
from schemas.options import MappingOptions
from schemas.scenarios import Scenario
from transforms.agent_points.agent import Agent
from transforms.agent_points.rows.gpu import Gpu
from transforms.agent_points.rows.lookups import Deployed
from transforms.agent_points.rows.rows import Rows
from transforms.equations.kv_memory import kv_bytes_on_rank
from transforms.numbers import Number


def scenario_under(scenario: Scenario, options: MappingOptions) -> Scenario:
    """The scenario as the engine sees it: where idle KV is dropped, a pause loses the session's prefix."""
    if options.idle_kv != "dropped" or scenario.think_time_s == 0:
        return scenario
    if scenario.mix is not None:
        parts = [part.model_copy(update={"scenario": scenario_under(part.scenario, options)}) for part in scenario.mix]
        kept = scenario.model_dump(include={"slug", "name", "source", "sessions", "gpus"})
        return Scenario.model_validate(kept | {"mix": tuple(parts)})
    return scenario.model_copy(update={"cache": FixedCache(hit_rate=0.0)})


def reload_ms(rows: Rows, agent: Agent) -> tuple[Number, ...]:
    """Time to bring a prefix back from host memory, of the mean, first and last turn.

    Each GPU of the rank that prefills loads its share over its own link.
    """
    link, tp = Gpu(rows, "prefill").host_link_bytes_per_s, Deployed(rows).prefilling_tp

    def load_ms(tokens: float) -> Number:
        on_rank = kv_bytes_on_rank(agent.spec.attention, tokens, Deployed(rows).kv_element_bytes, tp)
        return 1e3 * on_rank / tp / link

    return tuple(load_ms(tokens) for tokens in agent.reloaded_tokens)


def add_reload(rows: Rows, agent: Agent) -> Rows:
    """Turn figures with the reload before the prefill of those turns that need one (``cache_reload_fraction``)."""
    reloads = rows["cache_reload_fraction"]
    if not np.any(reloads):
        return rows
    mean, first, last = (reloads * load for load in reload_ms(rows, agent))
    return rows.with_figures(
        ttft_ms=rows["ttft_ms"] + mean,
        turn_latency_ms=rows["turn_latency_ms"] + mean,
        first_turn_latency_ms=rows["first_turn_latency_ms"] + first,
        last_turn_latency_ms=rows["last_turn_latency_ms"] + last,
    )
