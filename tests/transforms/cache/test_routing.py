"""Turns sent to any replica, against sessions that are played on several replicas; the equations by hand."""

import heapq
import math
import random
from collections import OrderedDict
from itertools import count

import numpy as np
import pytest

from schemas.scenarios import Scenario
from transforms.cache import (
    CacheLoad,
    RandomlyRouted,
    constant_hit_rate,
    recency,
    routed_profile,
    scenario_pauses,
    session_shape,
)
from transforms.cache.routing import sum_of_pauses
from transforms.equations.context import turn_profile
from transforms.equations.routing import copies_held, mean_turns_missed, share_last_there, share_never_there

#: Equally likely pauses, exponential with a mean of about 5 s.
PAUSES = tuple(-5.0 * math.log(1.0 - (place + 0.5) / 64) for place in range(64))
#: 12 turns from 4,000 tokens by 400.
PLAYED = {
    "slug": "played", "turns": 12, "think_time_s": {"values": PAUSES},
    "initial_prompt_tokens": 4000, "new_tokens_per_turn": 300, "output_tokens_per_turn": 100,
    "cache": {"model": "lru"},
}  # fmt: skip
SERVICE_S = 1.5


def routed(replicas: int, **changes: object) -> Scenario:
    return Scenario.model_validate({**PLAYED, "routing": "random", "replicas": replicas, **changes})


class Replica:
    """The memory of one: copies of sessions' contexts by when they were last used, those in flight held fast."""

    def __init__(self, memory: float) -> None:
        self.memory, self.copies, self.pinned, self.taken = memory, OrderedDict[int, float](), dict[int, float](), 0.0

    def begin(self, session: int, tokens: float) -> float:
        """Takes a turn; gives what is cached of it."""
        cached = self.copies.pop(session, 0.0)
        self.taken += tokens - cached
        self.pinned[session] = tokens
        self._evict()
        return cached

    def end(self, session: int, kept: float) -> None:
        self.taken += kept - self.pinned.pop(session)
        self.copies[session] = kept
        self._evict()

    def _evict(self) -> None:
        while self.taken > self.memory and self.copies:
            self.taken -= self.copies.popitem(last=False)[1]


def played_share(scenario: Scenario, sessions: int, memory: float, duration_s: float, seed: int) -> float:
    """Tokens found over tokens that turns could find, of sessions on all replicas; turns take ``SERVICE_S``."""
    dice, number = random.Random(seed), count()
    assert scenario.replicas is not None
    replicas = [Replica(memory) for _ in range(scenario.replicas)]
    growth, first, turns = scenario.context_growth_tokens, scenario.initial_prompt_tokens, int(scenario.turns)
    found = possible = 0.0
    events: list[tuple[float, int, str, int, int, int]] = []
    for _ in range(sessions):
        heapq.heappush(events, (dice.uniform(0, 60), next(number), "begin", next(number), dice.randrange(turns), -1))
    while events:
        now, _, what, task, turn, place = heapq.heappop(events)
        if now > duration_s:
            break
        context = first + turn * growth
        if what == "begin":
            place = dice.randrange(len(replicas))
            cached = replicas[place].begin(task, context + scenario.output_tokens_per_turn / 2)
            if now > duration_s / 4:
                found += cached
                possible += context - scenario.new_tokens_per_turn if turn else 0.0
            heapq.heappush(events, (now + SERVICE_S, next(number), "end", task, turn, place))
            continue
        replicas[place].end(task, context + scenario.output_tokens_per_turn)
        last = turn + 1 == turns
        later = now + dice.choice(PAUSES)
        heapq.heappush(
            events, (later, next(number), "begin", next(number) if last else task, 0 if last else turn + 1, -1)
        )
    return found / possible


def predicted_share(scenario: Scenario, sessions_each: float, memory: float) -> float:
    profile = turn_profile(scenario)
    model = RandomlyRouted.of(scenario, profile.context + scenario.output_tokens_per_turn)
    shape = session_shape(scenario, lambda tokens: tokens, most_hit_rate=recency(scenario).found)
    return float(model.outcome(shape, CacheLoad(sessions_each, np.array([SERVICE_S]), memory)).hit_rate[0])


def test_chances_by_hand() -> None:
    """Of three replicas: a third of the turns come where the last one was, two ninths where the one before was."""
    assert share_last_there(np.array([1.0, 2.0, 3.0]), 3) == pytest.approx([1 / 3, 2 / 9, 4 / 27])
    assert share_never_there(2.0, 3) == pytest.approx(4 / 9)
    assert mean_turns_missed(3.0, 3) == pytest.approx(2 / 9 + 2 * 4 / 27)
    assert mean_turns_missed(1e9, 3) == pytest.approx(2)
    assert copies_held(np.array([100.0, 200.0, 300.0]), 2).tolist() == [100, 250, 425]
    assert copies_held(np.array([100.0, 200.0, 300.0]), 1).tolist() == [100, 200, 300]


@pytest.mark.parametrize("replicas", [2, 3, 8])
def test_what_turns_find_where_nothing_is_forgotten(replicas: int) -> None:
    scenario = routed(replicas)
    found = played_share(scenario, 20 * replicas, 1e12, 4000.0, seed=4)
    assert recency(scenario).found == pytest.approx(found, abs=0.015)
    assert constant_hit_rate(scenario) == recency(scenario).found
    # the profile's slices have the same mean
    own, sliced = turn_profile(scenario), routed_profile(scenario, turn_profile(scenario))
    new = own.mean(own.new_on_miss) - found * (own.mean(own.new_on_miss) - own.mean(own.new_on_hit))
    assert sliced.mean(sliced.new_on_hit) == pytest.approx(new, rel=0.02)
    assert sliced.mean(sliced.context) == pytest.approx(own.mean(own.context))


@pytest.mark.parametrize(("replicas", "room"), [(2, 12.0), (2, 25.0), (4, 20.0), (4, 45.0), (1, 10.0)])
def test_what_turns_find_where_memory_evicts(replicas: int, room: float) -> None:
    """20 sessions a replica in memory for so many mean contexts, of which each session leaves several."""
    scenario = routed(replicas)
    memory = room * scenario.mean_context_tokens
    played = np.mean([played_share(scenario, 20 * replicas, memory, 3000.0, seed) for seed in (1, 2)])
    assert predicted_share(scenario, 20.0, memory) == pytest.approx(played, abs=0.03)


def test_copies_fill_the_memory() -> None:
    """Where all is kept, what a session holds on all replicas at the end of a task is the sum over them."""
    scenario, dice = routed(3), random.Random(5)
    contexts = turn_profile(scenario).context
    totals = np.zeros(len(contexts))
    for _ in range(4000):
        held: dict[int, float] = {}
        for turn, context in enumerate(contexts):
            held[dice.randrange(3)] = float(context)
            totals[turn] += sum(held.values())
    assert copies_held(contexts, 3) == pytest.approx(totals / 4000, rel=0.02)


def test_one_replica_is_the_session_s_own() -> None:
    scenario, sticky = routed(1), Scenario.model_validate(PLAYED)
    assert constant_hit_rate(scenario) == constant_hit_rate(sticky) == 1.0
    assert recency(scenario).found == pytest.approx(1.0)


def test_more_replicas_find_less() -> None:
    rates = [constant_hit_rate(routed(replicas)) for replicas in (1, 2, 4, 8, 16, 64)]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0.15
    kept = [constant_hit_rate(routed(4, cache={"model": "ttl", "kept_s": kept_s})) for kept_s in (1, 3, 10, 30, 1e6)]
    assert kept == sorted(kept)
    assert kept[0] < 0.1
    assert kept[-1] == pytest.approx(constant_hit_rate(routed(4)))


def test_sums_of_pauses_against_draws() -> None:
    pauses = scenario_pauses(routed(2))
    drawn = np.random.default_rng(2).choice(PAUSES, size=(200_000, 5)).sum(axis=1)
    found = sum_of_pauses(pauses, 5)
    assert found.mean_s == pytest.approx(5 * np.mean(PAUSES))
    for limit in (12.0, 27.0, 40.0):
        assert found.share_within(limit) == pytest.approx((drawn <= limit).mean(), abs=0.02)
        assert found.mean_within(limit) == pytest.approx(np.minimum(drawn, limit).mean(), rel=0.03)


def test_what_does_not_go_together_is_said() -> None:
    for changes, sentence in (
        ({"routing": "random"}, "random routing chooses among a number of replicas: give replicas, or gpus"),
        ({"replicas": 4}, "replicas says among how many random routing chooses: give routing: random too"),
        ({"routing": "anywhere"}, "Input should be 'sticky' or 'random'"),
    ):
        with pytest.raises(ValueError, match=sentence):
            Scenario.model_validate({**PLAYED, **changes})
    either = {**PLAYED, "routing": "random", "replicas": 2, "cache": {"hit_rate": 0.9}}
    parts = [{"scenario": {**either, "slug": slug}, "weight": 1} for slug in ("one", "two")]
    with pytest.raises(ValueError, match="the turns of a mix stay on their replica"):
        Scenario.model_validate({"slug": "both", "mix": parts})
