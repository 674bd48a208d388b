"""How the rows that a scenario takes serve its turns: at one hit rate for all, or each at the one that its own load
brings about (Step 5)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from schemas.arrays import Array, Flags
from schemas.options import MappingOptions
from transforms.agent_points.agent import Agent
from transforms.agent_points.carriers.workload import AgentTurns
from transforms.agent_points.memory.eviction import ServiceAtHitRates, cache_figures, evicting_memory
from transforms.agent_points.memory.idle_kv import add_reload, reload_ms
from transforms.agent_points.prepare import RowGroup
from transforms.agent_points.rows.columns import PREFILL_SLOPES, TURN_FIGURES
from transforms.agent_points.rows.rows import Rows, code
from transforms.agent_points.selection.alternatives import direct_figures
from transforms.cache import OverHitRates, evicting_model, evicts
from transforms.numbers import Number

SERVICE_FIGURES = (*TURN_FIGURES, "serving_requests_per_s")
#: Of them, what is published for all hits and for all misses.
_AT_BOTH_ENDS = ("turn_latency_ms", "serving_requests_per_s")


@dataclass(frozen=True)
class Service:
    """Rows of one group, how they serve an agent's turns at any hit rate.

    ``direct``: which of them are at the agent's own workload; ``misses`` the rows that price a miss of each of
    these, None where the scenario has no misses.
    """

    group: RowGroup
    agent: Agent
    direct: Flags
    misses: Rows | None

    @classmethod
    def of_group(cls, group: RowGroup, agent: Agent, options: MappingOptions) -> "Service":
        """The rows that the scenario takes of a group."""
        choice = group.choose(agent.scenario, options)
        return cls(
            group.take(choice.rows),
            agent,
            choice.direct[choice.rows],
            None if choice.miss is None else group.rows.take(choice.miss),
        )

    def at(self, hit_rate: Number) -> dict[str, Array]:
        """``SERVICE_FIGURES`` at one hit rate for all rows, or one for each."""
        return self._figures(hit_rate, self.agent.prefills)

    def _figures(self, hit_rate: Number, turns: AgentTurns) -> dict[str, Array]:
        figures = self._of_carriers(hit_rate, turns)
        if not self.direct.any():
            return figures
        direct = self._of_direct(figures)
        rates = hit_rate[self.direct] if isinstance(hit_rate, np.ndarray) else hit_rate
        rows = self.group.rows.take(self.direct)
        if self.misses is not None:
            direct = direct_figures(rows.with_figures(direct), self.misses, self.agent.output_tokens, rates)
        else:
            at_hits = figures if np.all(rates == 1.0) else self._of_carriers(1.0, turns)
            carried = self._of_direct(at_hits)
            table = direct_figures(rows.with_figures(carried), rows, self.agent.output_tokens, 1.0)
            # no row prices the misses: the table's own figures, times what misses add where the row is carried
            direct = {name: table[name] * _ratio(direct[name], carried[name]) for name in SERVICE_FIGURES}
        changed = {name: np.broadcast_to(values, len(self.group.rows)).copy() for name, values in figures.items()}
        for name, values in changed.items():
            values[self.direct] = direct[name]
        return changed

    def ends(self, known: Mapping[float, Mapping[str, Array]]) -> dict[str, Array]:
        """The figures published for all hits and for all misses; ``known``: figures at hit rates worked out before."""
        figures = {}
        for name, hit_rate in (("hits", 1.0), ("misses", 0.0)):
            at = known[hit_rate] if hit_rate in known else self._figures(hit_rate, self.agent.prefills.means())
            for figure in _AT_BOTH_ENDS:
                figures[at_end(figure, name)] = at[figure]
        return figures

    def prefill_slopes(self) -> dict[str, Number]:
        """``PREFILL_SLOPES`` of each row, taken between the agent's mean hit and its mean miss."""
        carriers, ends = self.group.carriers, self.agent.slope_ends
        if len(carriers) == 1:
            return dict(zip(PREFILL_SLOPES, carriers[0][0].prefill_slopes(*ends), strict=True))
        slopes = np.empty((2, len(self.group.rows)))
        for carrier, places in carriers:
            slopes[0, places], slopes[1, places] = carrier.prefill_slopes(*ends)
        return dict(zip(PREFILL_SLOPES, slopes, strict=True))

    def labels(self) -> dict[str, Number]:
        """``transfer_method`` of each row."""
        codes = [code("transfer_method", carrier.method) for carrier, _ in self.group.carriers]
        if len(codes) == 1 and not self.direct.any():
            return {"transfer_method": codes[0]}
        method = np.empty(len(self.group.rows), np.int8)
        for number, (_, places) in zip(codes, self.group.carriers, strict=True):
            method[places] = number
        method[self.direct] = code("transfer_method", "direct")
        return {"transfer_method": method}

    def _of_direct(self, figures: Mapping[str, Array]) -> dict[str, Array]:
        return {name: np.broadcast_to(values, len(self.direct))[self.direct] for name, values in figures.items()}

    def _of_carriers(self, hit_rate: Number, turns: AgentTurns) -> dict[str, Array]:
        if len(self.group.carriers) == 1:
            return self.group.carriers[0][0].figures_at(turns.at(hit_rate))
        figures = {name: np.empty(len(self.group.rows)) for name in SERVICE_FIGURES}
        for carrier, places in self.group.carriers:
            rates = hit_rate[places] if isinstance(hit_rate, np.ndarray) else hit_rate
            carried = carrier.figures_at(turns.at(rates))
            for name in SERVICE_FIGURES:
                figures[name][places] = carried[name]
        return figures


def at_end(figure: str, of: str) -> str:
    """The column of a figure at all ``hits`` or all ``misses``: the unit of a time stays last."""
    return f"{figure.removesuffix('_ms')}_all_{of}_ms" if figure.endswith("_ms") else f"{figure}_all_{of}"


def _ratio(values: Array, base: Array) -> Array:
    return np.where(base == 0.0, 1.0, values / np.where(base == 0.0, 1.0, base))


#: Hit rates at which rows are evaluated before their own is found, as shares of the most that a cache finds.
NODES: Final = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)
#: What rows keep at each of them.
NODE_FIGURES: Final = (*SERVICE_FIGURES, "prefill_tokens_per_turn")


def served_turns(service: Service, options: MappingOptions) -> Rows:
    """The rows with their turn figures and ``PREFILL_SLOPES``, what is brought back from host memory included."""
    serve = _each_at_its_load if evicts(service.agent.scenario, options) else _at_one_hit_rate
    return add_reload(serve(service, options), service.agent)


def _at_one_hit_rate(service: Service, options: MappingOptions) -> Rows:
    """The rows' turn figures where no load changes the hit rate."""
    rows, agent, hit_rate = service.group.rows, service.agent, service.agent.hit_rate
    figures = service.at(hit_rate)
    ends = service.ends({hit_rate: figures})
    offloaded = options.idle_kv == "offloaded"
    if offloaded:
        name = at_end("turn_latency_ms", "hits")
        ends[name] = ends[name] + reload_ms(rows, agent)[0]
    return _with_turns(service, figures, hit_rate).with_figures(
        ends,
        cache_hit_rate=hit_rate,
        cache_reload_fraction=hit_rate if offloaded else 0.0,
        prefix_kept_s=getattr(agent.scenario.cache, "kept_s", np.nan),
    )


def _each_at_its_load(service: Service, options: MappingOptions) -> Rows:
    """The rows' turn figures where memory evicts: each at the hit rate that its own load brings about.

    The figures at ``NODES`` stay with the rows (``node_name``), for other loads of the same curve.
    """
    rows, most = service.group.rows, evicting_model(service.agent.scenario)[1]
    memory = evicting_memory(rows, service.agent, options)
    at_nodes = {most * share: service.at(most * share) for share in NODES}
    rates = np.repeat(np.array([[rate] for rate in at_nodes]), len(rows), axis=1)
    evaluated = list(at_nodes.values())
    outcome = memory.at_own_load(_over_hit_rates(rates, evaluated), within=1e-3)
    # once more with the figures at the rates found among those known: between nodes a curve may bend
    evaluated.append(service.at(outcome.hit_rate))
    outcome = memory.at_own_load(_over_hit_rates(np.vstack([rates, outcome.hit_rate]), evaluated))
    nodes = {
        node_name(name, number): value
        for number, (rate, at) in enumerate(at_nodes.items())
        for name, value in {**at, "prefill_tokens_per_turn": service.agent.prefills.at(rate).mean.new_tokens}.items()
    }
    return (
        _with_turns(service, service.at(outcome.hit_rate), outcome.hit_rate)
        .with_figures(service.ends(at_nodes), **cache_figures(outcome))
        .with_figures(nodes)
    )


def node_name(figure: str, number: int) -> str:
    """The private column of a figure at one of the ``NODES``."""
    return f"_at_node_{number}_{figure}"


def _with_turns(service: Service, figures: dict[str, Array], hit_rate: Array | float) -> Rows:
    prefill_tokens = service.agent.prefills.at(hit_rate).mean.new_tokens
    further = {**service.labels(), **service.prefill_slopes(), "prefill_tokens_per_turn": prefill_tokens}
    return service.group.rows.with_figures(figures, **further)


def _over_hit_rates(rates: Array, figures: Sequence[Mapping[str, Array]]) -> ServiceAtHitRates:
    """R and the replica's time for a request, in seconds, of figures at hit rates in any order."""
    latency = np.array([at["turn_latency_ms"] / 1e3 for at in figures])
    request = np.array([1.0 / at["serving_requests_per_s"] for at in figures])
    order = np.argsort(rates, axis=0, kind="stable")
    rising, latency, request = (np.take_along_axis(values, order, axis=0) for values in (rates, latency, request))
    return ServiceAtHitRates(OverHitRates(rising, latency), OverHitRates(rising, request))
