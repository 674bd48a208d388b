"""The step model: TTFT, TPOT and throughput of a deployment at a load, from its facts and an engine's parameters.

In a replica of N requests in flight X are answered a second, b decode and the others wait or are prefilled:
``X * (TTFT + TPOT * (OSL - 1)) = N`` and ``b = N - X * TTFT``. A prefill takes P and displaces ``displaced * P`` of
decoding, so that ``TPOT = step(b) / (accepted * (1 - displaced * u))`` with ``u = X * P``. Times in seconds.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from schemas.arrays import Array
from transforms.calibration.facts import Facts, Load
from transforms.equations.shared_engine import output_token_time, prefill_wait

#: The share of its time that a prefill pool is busy stays below one.
BUSIEST: Final = 0.9995
#: So near to what there is prefills take all of the time.
FULL: Final = 1e-6
#: Halvings: the load is found within 1e-9 of all there is.
HALVINGS: Final = 30


@dataclass(frozen=True)
class Work:
    """What the requests of some loads make a deployment do at peak rates; arrays of one entry a load.

    ``second_moment``: the mean square of a prefill's time over the square of its mean, of requests that come one by
    one, as turns of agents do. None: requests that are alike and begin together, as in a load test.
    """

    in_flight: Array
    later_tokens: Array  #: OSL - 1
    decode_attention_s: Array
    products_s: Array
    attention_s: Array
    experts_touched: Array
    second_moment: Array | None = None

    @classmethod
    def of_load(cls, load: Load, facts: Facts) -> "Work":
        """The work of requests that are alike."""
        new = load.input_tokens - load.cached_tokens
        return cls(
            in_flight=load.in_flight,
            later_tokens=np.maximum(load.output_tokens - 1.0, 0.0),
            decode_attention_s=np.asarray(facts.decode_attention_s(load.input_tokens + load.output_tokens / 2)),
            products_s=np.asarray(facts.token_s * new),
            attention_s=np.asarray(facts.attention_s(new, load.cached_tokens)),
            experts_touched=np.asarray(facts.touched(new) + 0.0 * new),
        )


@dataclass(frozen=True)
class Served:
    """How loads are served: seconds, and requests a second of the replica. ``busy`` is the prefills' share of time."""

    ttft_s: Array
    tpot_s: Array
    requests_per_s: Array
    busy: Array
    decoding: Array

    def latency_s(self, output_tokens: Array) -> Array:
        """``TTFT + TPOT * (OSL - 1)``."""
        return self.ttft_s + self.tpot_s * np.maximum(output_tokens - 1.0, 0.0)


def prefill_s(work: Work, facts: Facts, p: dict[str, Array]) -> Array:
    """How long one prefill keeps a prefilling worker busy."""
    weights = facts.prefill_non_expert_read_s + facts.prefill_experts_read_s * work.experts_touched
    products = work.products_s / p["prefill_fraction"] + work.attention_s / p["attention_fraction"]
    return products + weights / p["weight_read_fraction"]


def step_s(decoding: Array, attention_s: Array, facts: Facts, p: dict[str, Array]) -> Array:
    """One decode step of so many requests in a replica (of one decode worker)."""
    of_rank = decoding / facts.ranks
    touched = facts.touched(np.maximum(decoding, 1.0) * (1.0 + facts.drafts))
    weights = facts.non_expert_read_s + facts.experts_read_s * touched
    attention = of_rank * attention_s / p["kv_read_fraction"]
    return np.asarray(p["step_s"] + weights / p["weight_read_fraction"] + attention + p["request_s"] * of_rank)


def serve(work: Work, facts: Facts, p: dict[str, Array]) -> Served:
    """The loads in a closed loop without pauses: found by halving the range of the prefills' share of time."""
    prefill = prefill_s(work, facts, p)
    most = BUSIEST / np.maximum(_displaced(facts, p), 1.0) + 0.0 * (prefill + work.in_flight)
    low, high = np.zeros_like(most), most
    for _ in range(HALVINGS):
        busy = (low + high) / 2
        over = excess(busy, prefill, work, facts, p) > 0
        high, low = np.where(over, busy, high), np.where(over, low, busy)
    served = served_at((low + high) / 2, prefill, work, facts, p)
    # where prefills take all of the time there are, the others wait for theirs
    waited = work.in_flight / served.requests_per_s - served.tpot_s * work.later_tokens
    full = served.busy > (1.0 - FULL) * most
    return replace(served, ttft_s=np.where(full, np.maximum(served.ttft_s, waited), served.ttft_s))


def excess(busy: Array, prefill: Array, work: Work, facts: Facts, p: dict[str, Array]) -> Array:
    """Log of the requests in flight at such a share of time over those that are there; zero where they agree."""
    served = served_at(busy, prefill, work, facts, p)
    return np.log(served.requests_per_s * (served.ttft_s + served.tpot_s * work.later_tokens) / work.in_flight)


def served_at(busy: Array, prefill: Array, work: Work, facts: Facts, p: dict[str, Array]) -> Served:
    """TTFT, TPOT and throughput if prefills take such a share of the time."""
    rate = busy * facts.prefill_workers / prefill
    ttft = p["wait_s"] + prefill + _queue_s(busy, prefill, work, facts, p)
    decoding = np.clip(work.in_flight - rate * ttft, 0.3, work.in_flight)
    step = step_s(decoding / facts.decode_workers, work.decode_attention_s, facts, p)
    tpot = output_token_time(step / p["accepted_tokens"], _displaced(facts, p) * busy)
    return Served(ttft, np.asarray(tpot), rate, busy, decoding)


def _queue_s(busy: Array, prefill: Array, work: Work, facts: Facts, p: dict[str, Array]) -> Array:
    """The wait for prefills in front: that of a single server (Pollaczek and Khinchine) for requests that come one by
    one or have a pool of their own, else bursts that end together.

    A request never waits for more than one prefill of each other request.
    """
    others = np.maximum(work.in_flight / facts.prefill_workers - 1.0, 0.0)
    if not facts.disaggregated and work.second_moment is None:
        return p["queue"] * np.sqrt(others) * prefill / 2.0
    moment = 1.0 if work.second_moment is None else work.second_moment
    factor = p["queue"] if facts.disaggregated else 1.0
    return np.asarray(prefill_wait(busy, prefill, factor * moment, others))


def _displaced(facts: Facts, p: dict[str, Array]) -> Array:
    return 0.0 * p["displaced"] if facts.disaggregated else p["displaced"]
