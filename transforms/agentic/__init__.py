"""Agent runs of limited length, predicted from measured standard rows: what `measured_agentic` is held against."""

from transforms.agentic.replay import (
    Replay,
    ReplayFigures,
    Server,
    hit_rate_at_latency,
    most_in_engine,
    predict_replay,
    replay_at_hit_rate,
)
from transforms.agentic.steps import MeasuredSteps, measured_steps, usable_deployments

__all__ = [
    "MeasuredSteps",
    "Replay",
    "ReplayFigures",
    "Server",
    "hit_rate_at_latency",
    "measured_steps",
    "most_in_engine",
    "predict_replay",
    "replay_at_hit_rate",
    "usable_deployments",
]
