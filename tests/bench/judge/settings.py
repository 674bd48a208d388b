"""Settings of the judge: an engine, an agent workload, pauses, a cache, a chunk budget, sessions and how they begin."""

import math
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from statistics import NormalDist
from typing import Any, Final

import numpy as np

from pipelines.reading.catalogues import load_scenarios
from schemas.distribution_nodes import scaled_nodes
from schemas.scenarios import Scenario
from tests.bench.judge.engines import ENGINES, engine
from transforms.cache.shape import scenario_pauses
from transforms.spread.draws import quantiles

PAUSES: Final = ("constant", "exponential", "log-normal", "empirical")
BUDGETS: Final = (2048, 4096, 8192, 16384, 32768)
SHIPPED: Final = (
    "code-agent", "research-agent", "deep-reasoning", "claude-code", "agentx-replay", "chat-with-tools", "mini-swe",
)  # fmt: skip
#: Beside the shipped scenarios: 20 turns from 16,000 tokens by 628, 128 out, pauses of 5 s.
PLAIN: Final = "plain"
#: Fitted to traces.
FITTED: Final = ("fitted-tracelab", "fitted-mini-swe")
_FITTED_FILE: Final = Path(__file__).with_name("fitted.yaml")
#: Equally likely pauses that stand for a distribution, on both sides.
_VALUES: Final = 32
_SIGMA: Final = 1.0
_LONGEST_EMPIRICAL_S: Final = 60.0


@dataclass(frozen=True)
class Setting:
    """One setting, in few words: ``load`` is the sessions over those whose mean contexts fill the memory."""

    name: str
    drawn: str
    engine: str
    workload: str
    pauses: str
    pause_s: float
    cache: str
    hit_rate: float | None
    kept_s: float | None
    budget: int
    start: str
    sessions: int
    load: float
    seed: int

    @property
    def scenario(self) -> Scenario:
        """The workload as a build takes it. Turns are alike: a task that is longer would compact its context."""
        own = _base(self.workload)
        fields = own.model_dump(exclude={"distributions", "statistics", "mix", "cache", "sessions", "gpus"})
        kept = own.distributions.model_dump() if own.distributions else {}
        kept |= {"turns": None, "think_time_s": {"values": tuple(self.pause_values)}, "new_tokens_per_turn": None}
        caches: dict[str, dict[str, Any]] = {
            "fixed": {"model": "fixed", "hit_rate": self.hit_rate},
            "ttl": {"model": "ttl", "kept_s": self.kept_s},
            "lru": {"model": "lru", "most_hit_rate": 1.0},
        }
        first = fields["first_turn_new_tokens"]
        if self.cache == "lru" or own.distributions:
            first = own.initial_prompt_tokens - own.shared_prefix_tokens
        return Scenario.model_validate(
            fields | {
                "slug": "judged", "distributions": kept, "cache": caches[self.cache], "first_turn_new_tokens": first,
                "think_time_s": self.pause_s, "sessions": self.sessions, "gpus": engine(self.engine).gpus,
                "turns": float(round(own.turns)),
            }
        )  # fmt: skip

    @property
    def pause_values(self) -> list[float]:
        """Equally likely pauses of the mean ``pause_s``."""
        return [self.pause_s * value for value in _pause_form(self.pauses)]

    def for_clock(self, turns: float, latency_s: float, most_cpu_s: float = 25.0) -> dict[str, Any]:
        """What ``virtual_clock`` runs, long enough for so many turns where a turn takes about so long."""
        scenario, own = self.scenario, engine(self.engine)
        cycle = latency_s + self.pause_s
        context = scenario.mean_context_tokens
        # until every session has prefilled its context once, and four turns more
        filled = self.sessions * own.steps.time_s(0.0, 0.0, context, context**2 / 2)
        warm = max(4 * cycle + filled, 30.0) if self.start == "spread" else cycle
        first = scenario.first_turn_new_tokens
        all_new = first >= scenario.initial_prompt_tokens - scenario.shared_prefix_tokens
        memory = own.kv_tokens
        if self.cache != "lru":  # what a stated cache keeps must fit
            memory = max(memory, 3.0 * self.sessions * scenario.peak_context_tokens)
        return {
            "name": self.name, "steps": own.as_numbers(), "memory_tokens": memory, "budget": self.budget,
            "sessions": self.sessions, "start": self.start, "stagger_s": cycle, "seed": self.seed,
            "duration_s": warm + max(turns * cycle / self.sessions, 10 * cycle), "warm_s": warm,
            "most_cpu_s": most_cpu_s,
            "workload": {
                "turns": [scenario.turns], "first": _values(scenario, "initial_prompt_tokens"),
                "new": [scenario.new_tokens_per_turn], "output": _values(scenario, "output_tokens_per_turn"),
                "retention": scenario.output_retention_fraction, "first_new": None if all_new else first,
                "shared": scenario.shared_prefix_tokens, "pause": self.pause_values,
                "cache": scenario.cache.model_dump(),
            },
        }  # fmt: skip

    def row(self) -> dict[str, Any]:
        return asdict(self)


def draw_settings(count: int, seed: int, drawn: str) -> Iterator[Setting]:
    """Settings drawn at random: workload, engine, pauses, cache, budget and start evenly, loads from a fifth of the
    wall to 1.4 of it. Those that no engine could serve (a context beyond the model's or the memory) are drawn anew."""
    source = random.Random(seed)
    made = 0
    while made < count:
        name = source.choice(tuple(ENGINES))
        workload = source.choice((PLAIN, PLAIN, *SHIPPED, *FITTED, *FITTED))
        base, own = _base(workload), engine(name)
        pauses = source.choice(PAUSES)
        pause_s = round(base.think_time_s if workload == PLAIN else min(base.think_time_s, 20.0), 3)
        pause_s = round(pause_s * source.choice((0.5, 1.0, 2.0)), 3)
        cache = source.choice(("lru", "lru", "lru", "fixed", "ttl"))
        peak = base.peak_context_tokens
        shared = base.shared_prefix_tokens
        held = base.mean_context_tokens + base.output_tokens_per_turn / 2 - shared
        fit = (own.kv_tokens - shared) / held
        wall = min(fit, 220.0)
        loads = (0.15, 0.3, 0.45, 0.6, 0.75, 0.9, 1.0, 1.1, 1.3) if cache == "lru" else (0.15, 0.3, 0.5, 0.7, 0.9)
        load = source.choice(loads)
        sessions = round(load * wall)
        hit_rate = source.choice((0.7, 0.85, 0.95, 1.0)) if cache == "fixed" else None
        kept_s = round(pause_s * source.choice((0.7, 1.5, 3.0)), 3) if cache == "ttl" else None
        budget, seed_of_run = source.choice(BUDGETS), source.randrange(1000)
        start = source.choice(("spread", "spread", "spread", "together"))
        if sessions < 2 or fit < 3 or peak > (own.spec.max_context_tokens or math.inf):
            continue
        if cache == "fixed" and hit_rate == 1.0 and start == "together":
            continue
        made += 1
        yield Setting(
            f"{drawn}-{made:03}", drawn, name, workload, pauses, pause_s, cache, hit_rate, kept_s, budget, start,
            sessions, round(sessions / fit, 4), seed_of_run,
        )  # fmt: skip


@lru_cache
def _base(workload: str) -> Scenario:
    if workload in FITTED:
        return next(each for each in load_scenarios([str(_FITTED_FILE)]) if each.slug == workload)
    if workload != PLAIN:
        (scenario,) = load_scenarios([workload])
        return scenario
    return Scenario(
        slug=PLAIN, turns=20, think_time_s=5, initial_prompt_tokens=16_000, new_tokens_per_turn=500,
        output_tokens_per_turn=128, cache={"hit_rate": 1.0},  # type: ignore[arg-type]
    )  # fmt: skip


def _values(scenario: Scenario, name: str) -> list[float]:
    """Equally likely values of a quantity: those of its distribution, at the middles of slices, of its mean."""
    form = getattr(scenario.distributions, name, None)
    mean = float(getattr(scenario, name))
    if form is None:
        return [mean]
    values, weights = scaled_nodes(form, mean)
    shares = (np.arange(64) + 0.5) / 64
    found = quantiles(values, weights, shares, steps=form.values is not None)
    return [float(value) for value in np.maximum(found, 1.0)]


@lru_cache
def _pause_form(pauses: str) -> tuple[float, ...]:
    """Equally likely pauses of mean 1."""
    count = _VALUES
    if pauses == "constant":
        return (1.0,)
    if pauses == "exponential":
        below = [math.inf if k == count else -math.log(1 - k / count) for k in range(count + 1)]
        tail = [0.0 if math.isinf(edge) else (edge + 1) * math.exp(-edge) for edge in below]
        return tuple(count * (tail[k] - tail[k + 1]) for k in range(count))
    if pauses == "log-normal":
        normal = NormalDist()
        edges = [-math.inf, *(normal.inv_cdf(k / count) for k in range(1, count)), math.inf]
        return tuple(count * (normal.cdf(edges[k + 1] - _SIGMA) - normal.cdf(edges[k] - _SIGMA)) for k in range(count))
    (claude,) = load_scenarios(["claude-code"])
    coarse = scenario_pauses(claude).capped(_LONGEST_EMPIRICAL_S).coarse(count)
    total: list[float] = []
    for value, weight in zip(coarse.values, coarse.weights, strict=True):
        total += [float(value)] * max(round(weight * count), 1)
    mean = sum(total) / len(total)
    return tuple(value / mean for value in total)
