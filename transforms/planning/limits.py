"""What a planner demands of a turn, as one limit on its latency."""

from dataclasses import dataclass

#: A figure on a limit itself must not fall over it by rounding.
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Loop:
    """What the limits and the closed loop need to know of a scenario (symbols: model.md 2)."""

    turns: float
    think_time_s: float
    output_tokens_per_turn: float


@dataclass(frozen=True)
class Limits:
    """Upper bounds of turn latency R and task time, a lower bound of output tokens a second; None: no such limit."""

    max_turn_latency_s: float | None = None
    max_task_time_s: float | None = None
    min_tokens_per_s_per_user: float | None = None

    def turn_latencies_s(self, loop: Loop) -> dict[str, float]:
        """The longest turn that each limit allows, in seconds: N*(R + Z) and OSL/R turned round for R.

        A limit that no turn meets gives zero or less.
        """
        allowed = {}
        if self.max_turn_latency_s is not None:
            allowed["turn_latency"] = self.max_turn_latency_s
        if self.max_task_time_s is not None:
            allowed["task_time"] = self.max_task_time_s / loop.turns - loop.think_time_s
        if self.min_tokens_per_s_per_user is not None:
            allowed["tokens_per_s_per_user"] = loop.output_tokens_per_turn / self.min_tokens_per_s_per_user
        return allowed

    def tightest(self, loop: Loop) -> tuple[str | None, float]:
        """The limit that is met first when turns get slower, and its turn latency; infinite without limits."""
        allowed = self.turn_latencies_s(loop)
        if not allowed:
            return None, float("inf")
        name = min(allowed, key=lambda limit: allowed[limit])
        return name, allowed[name]


def at_latency(limit: str, turn_latency_s: float, loop: Loop) -> float:
    """The value of a limit that a turn latency just meets."""
    return {
        "turn_latency": turn_latency_s,
        "task_time": loop.turns * (turn_latency_s + loop.think_time_s),
        "tokens_per_s_per_user": loop.output_tokens_per_turn / turn_latency_s,
    }[limit]
