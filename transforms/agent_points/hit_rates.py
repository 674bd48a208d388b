"""The hit rate of each row and its turn figures there: one rate for all rows, or the outcome of each (Step 5)."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from schemas.arrays import Array
from schemas.models import ModelSpec
from schemas.options import MappingOptions
from schemas.scenarios import Scenario
from transforms.agent_points.memory.eviction import ServiceAtHitRates, cache_figures, evicting_memory
from transforms.agent_points.memory.idle_kv import reload_ms
from transforms.agent_points.rows.rows import Rows
from transforms.agent_points.service import SERVICE_FIGURES, Service, at_end
from transforms.cache import OverHitRates, constant_hit_rate, evicting_model

#: Hit rates at which rows are evaluated before their own is found, as shares of the most that a cache finds.
NODES: Final = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)
#: What rows keep at each of them.
NODE_FIGURES: Final = (*SERVICE_FIGURES, "prefill_tokens_per_turn")


def add_turns(service: Service, scenario: Scenario, spec: ModelSpec, options: MappingOptions) -> Rows:
    """The rows' turn figures where no load changes the hit rate."""
    rows, hit_rate = service.group.rows, constant_hit_rate(scenario)
    figures = service.at(hit_rate)
    ends = service.ends({hit_rate: figures})
    offloaded = options.idle_kv == "offloaded"
    if offloaded:
        name = at_end("turn_latency_ms", "hits")
        ends[name] = ends[name] + reload_ms(rows, scenario, spec)[0]
    return _with_turns(service, figures, hit_rate).with_figures(
        ends,
        cache_hit_rate=hit_rate,
        cache_reload_fraction=hit_rate if offloaded else 0.0,
        prefix_kept_s=getattr(scenario.cache, "kept_s", np.nan),
    )


def add_turns_that_evict(service: Service, scenario: Scenario, spec: ModelSpec, options: MappingOptions) -> Rows:
    """The rows' turn figures where memory evicts: each at the hit rate that its own load brings about.

    The figures at ``NODES`` stay with the rows (``node_name``), for other loads of the same curve.
    """
    rows, most = service.group.rows, evicting_model(scenario)[1]
    memory = evicting_memory(rows, scenario, spec, options, aggregated=service.group.aggregated)
    at_nodes = {most * share: service.at(most * share) for share in NODES}
    rates = np.repeat(np.array([[rate] for rate in at_nodes]), len(rows), axis=1)
    known = list(at_nodes.values())
    found = memory.at_own_load(_over_hit_rates(rates, known), halvings=10)
    # once more with the figures at the rates found among those known: between nodes a curve may bend
    known.append(service.at(found.hit_rate))
    found = memory.at_own_load(_over_hit_rates(np.vstack([rates, found.hit_rate]), known))
    nodes = {
        node_name(name, number): value
        for number, (rate, at) in enumerate(at_nodes.items())
        for name, value in {**at, "prefill_tokens_per_turn": service.turns.at(rate).mean.new_tokens}.items()
    }
    return (
        _with_turns(service, service.at(found.hit_rate), found.hit_rate)
        .with_figures(service.ends(at_nodes), **cache_figures(found))
        .with_figures(nodes)
    )


def node_name(figure: str, number: int) -> str:
    """The private column of a figure at one of the ``NODES``."""
    return f"_at_node_{number}_{figure}"


def _with_turns(service: Service, figures: dict[str, Array], hit_rate: Array | float) -> Rows:
    prefill_tokens = service.turns.at(hit_rate).mean.new_tokens
    return service.group.rows.with_figures(figures, **service.labels(), prefill_tokens_per_turn=prefill_tokens)


def _over_hit_rates(rates: Array, figures: Sequence[Mapping[str, Array]]) -> ServiceAtHitRates:
    """R and the replica's time for a request, in seconds, of figures at hit rates in any order."""
    latency = np.array([at["turn_latency_ms"] / 1e3 for at in figures])
    request = np.array([1.0 / at["serving_requests_per_s"] for at in figures])
    order = np.argsort(rates, axis=0, kind="stable")
    rising, latency, request = (np.take_along_axis(values, order, axis=0) for values in (rates, latency, request))
    return ServiceAtHitRates(OverHitRates(rising, latency), OverHitRates(rising, request))
