"""A simulation of a replay, event by event: what the fixed point is held against."""

import heapq
from collections import OrderedDict, deque
from dataclasses import dataclass

import numpy as np

from transforms.agentic import Replay, Server


@dataclass(frozen=True)
class Simulated:
    """Means of the turns that were answered; of those begun, the share of prompt tokens that was found."""

    turns_per_s: float
    turn_latency_s: float
    hit_rate: float


def simulate(replay: Replay, server: Server, seed: int) -> Simulated:
    """One run: prefills first come first served, decode of all others waits meanwhile; outputs are exponential.

    A turn is admitted when its KV fits beside that of the turns in service; parked prefixes make room, used longest
    ago first and each from its end on, as engines evict blocks. Sessions never end and share nothing.
    """
    rng, tokens, steps = np.random.default_rng(seed), replay.input_tokens, server.steps
    reused = replay.reused_fraction * tokens
    count = int(replay.sessions)
    loads = np.arange(1.0, count + 1)
    decode_ms = steps.decode_ms(loads, tokens + replay.output_tokens / 2, server.overheads)
    held, kept = tokens + replay.output_tokens / 2, tokens + replay.output_tokens
    arrivals = [(0.0, name) for name in range(count)]
    waiting: deque[tuple[float, int]] = deque()
    prefills: deque[tuple[float, int, float]] = deque()  # arrived, session, ms
    decoding: list[list[float]] = []  # tokens left, arrived, session
    parked: OrderedDict[int, float] = OrderedDict()
    now, in_service, latencies, begun, found = 0.0, 0, [], 0, 0.0

    def make_room(needed: float) -> bool:
        missing = in_service * held + sum(parked.values()) + needed - server.memory_tokens
        while parked and missing > 0:
            name, own = parked.popitem(last=False)
            if own > missing:
                parked[name] = own - missing
                parked.move_to_end(name, last=False)
            missing -= own
        return in_service * held + needed <= server.memory_tokens

    while now < replay.duration_s * 1e3:
        while arrivals and arrivals[0][0] <= now:
            waiting.append(heapq.heappop(arrivals))
        while waiting:
            arrived, name = waiting[0]
            own = parked.pop(name, None)
            if not make_room(held):
                if own is not None:
                    parked[name] = own
                break
            waiting.popleft()
            in_service, begun = in_service + 1, begun + 1
            there = min(own or 0.0, reused)
            found += there
            prefills.append((arrived, name, steps.prefill_ms(tokens - there, there)))
        if prefills:
            arrived, name, busy_ms = prefills.popleft()
            now += busy_ms
            output = max(rng.exponential(replay.output_tokens), 1.0)
            decoding.append([output, arrived, name])
        elif decoding:
            step = decode_ms[len(decoding) - 1]
            done_in = min(turn[0] for turn in decoding) * step
            elapsed = min(done_in, arrivals[0][0] - now if arrivals else done_in)
            now += elapsed
            for turn in decoding:
                turn[0] -= elapsed / step
            for turn in [turn for turn in decoding if turn[0] <= 1e-9]:
                decoding.remove(turn)
                in_service -= 1
                latencies.append(now - turn[1] + steps.wait_ms)
                make_room(kept)
                parked[int(turn[2])] = kept
                pause = rng.choice(replay.pauses.values, p=replay.pauses.weights)
                heapq.heappush(arrivals, (now + steps.wait_ms + 1e3 * pause, int(turn[2])))
        else:
            now = arrivals[0][0]
    seconds = replay.duration_s
    return Simulated(len(latencies) / seconds, float(np.mean(latencies)) / 1e3, found / (begun * tokens))
