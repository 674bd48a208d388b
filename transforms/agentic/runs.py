"""Measured agent runs as replays: what was run on which deployment, with the pauses and hit rates that it had.

What a run does not say is taken from the runs of the same deployment or assumed, and named in ``assumed``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import polars as pl

from schemas.catalogue import HardwareCatalogue
from schemas.dtypes import BYTES_PER_KV_ELEMENT, BYTES_PER_WEIGHT
from schemas.engines import CalibratedEngine
from schemas.hardware import Hardware
from schemas.models import ModelSpec
from schemas.tables import TABLES
from transforms.agent_points.memory.pool_memory import replica_kv_bytes
from transforms.agentic.replay import Replay, most_in_memory
from transforms.cache import PauseDistribution
from transforms.calibration.agents import Pilot, fit_pilots
from transforms.calibration.deployments import Refused, deployment_columns
from transforms.calibration.facts import Facts, deployment_facts
from transforms.calibration.fit import Fitted, expected_logs
from transforms.calibration.prior import Prior
from transforms.calibration.sharing import architectures
from transforms.equations import kv_memory as kv

#: Runs of one of these are runs of one deployment.
DEPLOYMENT: Final = ("hardware", "model", "precision_name", "backend", "backend_version", "tp", "pp", "dp", "cp",
                     "moe_ep", "draft_tokens", "linear_precision_name", "cache_precision_name")  # fmt: skip
_ONE_DEPLOYMENT: Final = ("hardware", "weight_dtype", "backend", "serving_mode", "tp", "dp", "draft_tokens")
#: What a replay needs of a run.
_NEEDED: Final = ("tp", "pp", "dp", "cp", "sessions", "duration_s", "requests_total", "requests_successful",
                  "mean_input_tokens", "mean_output_tokens", "turn_latency_ms", "ttft_ms",
                  "output_tokens_per_s_per_gpu")  # fmt: skip
_PRECISIONS: Final = (*BYTES_PER_WEIGHT, "fp4")
#: Pauses of unknown shape are taken as exponential: so many equally likely values.
_PAUSES: Final = 32
#: Standard deviation of contexts over their mean where a run does not say it: 0.42 in measured coding agents.
CONTEXT_SPREAD: Final = 0.4
#: A whole run lasts for so much of the longest, its turns and pauses make up so much of its sessions' time, and its
#: mean TTFT is at most so many times the median.
LEAST_DURATION: Final = 0.94
ACCOUNTED: Final = 0.80
STALLED: Final = 50.0


@dataclass(frozen=True)
class AgentRun:
    """One measured run and its replay."""

    row: Mapping[str, Any]
    replay: Replay
    memory_tokens: float
    host_tokens: float = 0.0
    reload_ms_per_token: float = 0.0

    @property
    def hit_rate(self) -> float | None:
        """Of the prompts' tokens: in the GPUs' memory, or behind it in the host's."""
        resident, behind = self.row["server_gpu_cache_hit_rate"], self.row["server_cpu_cache_hit_rate"] or 0.0
        return None if resident is None else resident + (1.0 - resident) * behind

    @property
    def name(self) -> str:
        """File and row."""
        return f"{self.row['source_file']} row {self.row['source_row']}"

    @property
    def wall(self) -> float:
        """Turns in service that fill the memory."""
        return most_in_memory(self.replay, self.memory_tokens)

    @property
    def beyond_wall(self) -> bool:
        """Whether more sessions run than memory holds."""
        return bool(self.row["sessions"] > self.wall)

    @property
    def pilot(self) -> Pilot | None:
        """The run as a pilot; None where it states no hit rate."""
        row, hits = self.row, self.hit_rate
        if hits is None:
            return None
        return Pilot(
            self.replay, self.memory_tokens, hits, row["output_tokens_per_s_per_gpu"] * row["gpus_per_replica"],
            row["turn_latency_ms"] / 1e3, row["itl_ms"],
        )  # fmt: skip


@dataclass(frozen=True)
class RunDeployment:
    """The runs of one deployment, its facts, and what was assumed of it, in sentences."""

    runs: tuple[AgentRun, ...]
    facts: Facts
    serving: pl.DataFrame  #: the deployment as a row of ``serving_points``
    assumed: tuple[str, ...]

    @property
    def identity(self) -> dict[str, Any]:
        """The columns of ``serving_points`` that name it."""
        return self.serving.select(deployment_columns()).row(0, named=True)

    def is_whole(self, run: AgentRun) -> bool:
        """Whether the run lasted as long as the others and its sessions' time is accounted for: no stall, no loss."""
        row, others = run.row, [each.row for each in self.runs]
        pauses = sorted(pause_s(each) for each in others if each["sessions"] <= self.runs[0].wall)
        usual = pauses[len(pauses) // 2] if pauses else pause_s(row)
        in_time = row["duration_s"] >= LEAST_DURATION * max(each["duration_s"] for each in others)
        seconds = row["requests_successful"] * (row["turn_latency_ms"] / 1e3 + usual)
        seconds += row["sessions"] * row["turn_latency_ms"] / 2e3
        stalled = row["ttft_p50_ms"] is not None and row["ttft_ms"] > STALLED * row["ttft_p50_ms"]
        return bool(in_time and not stalled and seconds >= ACCOUNTED * row["sessions"] * row["duration_s"])

    @property
    def name(self) -> str:
        """What tells it from others, in words."""
        row = self.runs[0].row
        return f"{row['model']} ({row['precision_name']}) on {row['hardware']}, {row['backend']}, TP{row['tp']}"


def run_deployments(
    runs: pl.DataFrame,
    models: Mapping[str, ModelSpec],
    hardware: HardwareCatalogue,
    *,
    kv_dtype: str | None = None,
    kv_tokens: float | None = None,
    host_bytes: float = 0.0,
    engines: Sequence[CalibratedEngine] = (),
) -> list[RunDeployment]:
    """Rows of ``measured_agentic`` by deployment; ``kv_tokens``: the memory of each, as its server says it.

    ``host_bytes``: memory of the host behind the GPUs', of the runs that offload.

    ``engines``: KV format and memory of a calibrated deployment are those of its engine.
    """
    found, alike = [], architectures(models.values())
    runs = runs.filter(usable())
    for _, part in runs.sort("sessions").group_by(DEPLOYMENT, maintain_order=True):
        first = part.row(0, named=True)
        spec, gpu = models[first["model"]], hardware.get(first["hardware"])
        linear, experts = served_formats(first["precision_name"], spec, gpu)
        linear = first["linear_precision_name"] or linear
        named = first | {"weight_dtype": experts, "serving_mode": "agg"}
        engine = next((each for each in engines if is_same_deployment(each.deployment, named, alike)), None)
        told = first["cache_precision_name"]
        cache = kv_dtype or told or (engine.deployment["kv_dtype"] if engine else spec.kv_dtype)
        stated = kv_tokens or first["kv_tokens"] or (engine and engine.kv_tokens)
        serving = _as_serving(first, linear, experts, cache, spec)
        facts = deployment_facts(serving, spec, hardware)
        token = kv.kv_bytes_on_rank(spec.attention, 1.0, BYTES_PER_KV_ELEMENT[cache], first["tp"])
        memory = stated or replica_kv_bytes(serving, spec, hardware) / float(token)
        rows = list(part.iter_rows(named=True))
        reused = max(_reused(row) or 0.0 for row in rows)
        turns = max(_turns_left(row) for row in rows)
        reload_ms = 1e3 * float(token) / first["tp"] / gpu.host_link_bytes_per_s
        replays = [
            AgentRun(
                row, _replay(row, reused, turns), memory,
                host_bytes / float(token) if row["offload_mode"] == "on" else 0.0, reload_ms,
            )
            for row in rows
        ]  # fmt: skip
        assumed = [f"KV in {cache}, weights in {linear}" + (f", experts in {experts}" if spec.moe else "")]
        if not stated:
            assumed.append(f"memory for {memory:,.0f} tokens of KV, by the defaults of {first['backend']}")
        if not host_bytes and any(row["offload_mode"] == "on" for row in rows):
            assumed.append("no memory of the host behind the GPUs', also in runs that offload: say --host-memory-gib")
        if any(row["theoretical_cache_hit_rate"] is None for row in rows):
            assumed.append(f"a cache without end would find {reused:.0%} of the prompts: the most that a run found")
        found.append(RunDeployment(tuple(replays), facts, serving, tuple(assumed)))
    return found


def usable() -> pl.Expr:
    """Whether a row of ``measured_agentic`` says enough to be replayed: aggregated, with a known precision and all of
    ``_NEEDED``."""
    known = pl.col("precision_name").is_null() | pl.col("precision_name").str.to_lowercase().is_in(_PRECISIONS)
    return (pl.col("serving_mode") == "agg") & known & pl.all_horizontal(pl.col(name).is_not_null() for name in _NEEDED)


def unusable_runs(runs: pl.DataFrame) -> list[Refused]:
    """The runs that cannot be replayed, each with why."""
    refused = []
    for row in runs.filter(~usable().fill_null(False)).iter_rows(named=True):
        lacks = [name for name in _NEEDED if row[name] is None]
        if row["serving_mode"] != "agg":
            detail = "a disaggregated replica: the replay knows one pool only"
        elif lacks:
            detail = f"the run does not give {', '.join(lacks)}"
        else:
            detail = f"{row['precision_name']!r} names no storage format"
        refused.append(Refused(row["source_file"], row["source_row"], "cannot_be_replayed", detail))
    return refused


def served_formats(precision: str | None, spec: ModelSpec, gpu: Hardware) -> tuple[str, str]:
    """(linear, experts) of a precision's name. Four bits are those of the experts where there are any: attention is
    left out of quantisation."""
    four_bits = {"fp4": "mxfp4" if gpu.vendor == "AMD" else "nvfp4", "nvfp4": "nvfp4", "mxfp4": "mxfp4", "int4": "int4"}
    name = (precision or spec.weight_dtype).casefold()
    if name in four_bits:
        return ("bf16" if spec.moe else four_bits[name]), four_bits[name]
    if name == "fp8" and spec.weight_dtype.startswith("fp8"):
        return spec.weight_dtype, spec.weight_dtype
    return name, name


def fit_runs(pilots: Sequence[AgentRun], facts: Facts, prior: Prior, standard: Fitted | None = None) -> Fitted:
    """The engine of a deployment from pilots, and from its standard rows where it has any."""
    known = standard or Fitted(expected_logs(prior, facts), prior.covariance)
    told = [pilot for run in pilots if (pilot := run.pilot) is not None]
    return fit_pilots(told, facts, Prior(known.logs, known.covariance)) if told else known


def usable_pilots(deployment: RunDeployment) -> tuple[RunDeployment | None, list[Refused]]:
    """The deployment with the runs that may calibrate it, None where there is none; and the others, each with why."""
    kept: list[AgentRun] = []
    refused: list[Refused] = []
    for run in deployment.runs:
        place = (run.row["source_file"], run.row["source_row"])
        if run.hit_rate is None:
            refused.append(Refused(*place, "missing_value", "the run states no cache hit rate of the server"))
        elif not deployment.is_whole(run):
            detail = "the run stalled, ended early or lost turns: its sessions' time is not accounted for"
            refused.append(Refused(*place, "not_whole", detail))
        else:
            kept.append(run)
    return (replace(deployment, runs=tuple(kept)) if kept else None), refused


def engine_of_run(
    deployment: RunDeployment, engines: Sequence[CalibratedEngine], alike: Mapping[str, str]
) -> CalibratedEngine | None:
    """The calibrated engine of the runs' deployment; None where there is none."""
    return next((each for each in engines if is_same_deployment(each.deployment, deployment.identity, alike)), None)


def is_same_deployment(one: Mapping[str, Any], other: Mapping[str, Any], alike: Mapping[str, str]) -> bool:
    """Whether two deployments serve one architecture in one way; versions and settings, which a run may lack, apart.

    ``alike``: as ``calibration.sharing.architectures`` gives it.
    """
    same_model = alike.get(one["model"], one["model"]) == alike.get(other["model"], other["model"])
    return same_model and all(one[name] == other[name] for name in _ONE_DEPLOYMENT)


def with_pauses(run: AgentRun, pauses: PauseDistribution, turns: float, context_spread: float) -> AgentRun:
    """The run with what is known of what was replayed, in place of what it says itself."""
    known = replace(run.replay, pauses=pauses, turns=turns, context_spread=context_spread)
    return replace(run, replay=known)


def pause_s(row: Mapping[str, Any]) -> float:
    """The mean pause of a run: as it says itself, else its sessions' time less its turns'.

    At the end of a run each session is amid a turn.
    """
    if row["pause_s"] is not None:
        return float(row["pause_s"])
    begun = row["requests_successful"] + row["sessions"] / 2.0
    each: float = row["sessions"] * row["duration_s"] / begun - row["turn_latency_ms"] / 1e3
    return max(each, 0.0)


def _turns_left(row: Mapping[str, Any]) -> float:
    """Turns of a session within the run; where the run does not say, its sessions last as long as it does."""
    told: float | None = row["turns_per_session"]
    return row["requests_total"] / row["sessions"] if told is None else told


def _reused(row: Mapping[str, Any]) -> float | None:
    theoretical: float | None = row["theoretical_cache_hit_rate"]
    return row["server_gpu_cache_hit_rate"] if theoretical is None else theoretical


def _replay(row: Mapping[str, Any], reused: float, turns: float) -> Replay:
    stated = row["theoretical_cache_hit_rate"]
    mean = max(pause_s(row), 1e-3)
    quantiles = (np.arange(_PAUSES) + 0.5) / _PAUSES
    values = -np.log1p(-quantiles)
    return Replay(
        sessions=row["sessions"],
        duration_s=row["duration_s"],
        input_tokens=row["mean_input_tokens"],
        output_tokens=row["mean_output_tokens"],
        reused_fraction=reused if stated is None else stated,
        turns=turns if row["turns_per_session"] is None else row["turns_per_session"],
        pauses=PauseDistribution.empirical(values / values.mean() * mean),
        context_spread=CONTEXT_SPREAD if row["context_spread_fraction"] is None else row["context_spread_fraction"],
    )


def _as_serving(row: Mapping[str, Any], linear: str, experts: str, cache: str, spec: ModelSpec) -> pl.DataFrame:
    """The run's deployment as one row of ``serving_points``."""
    fields = TABLES["serving_points"].fields
    known = {field.name: row.get(field.name) for field in fields}
    known |= {
        "prefill_hardware": row["hardware"], "decode_hardware": row["hardware"], "weight_dtype": experts,
        "expert_dtype": experts if spec.moe else None, "linear_dtype": linear, "kv_dtype": cache,
        "attention_dtype": "bf16", "latency_statistic": "mean",
        "accepted_tokens": 1.0 if row["draft_tokens"] == 0 else None,
    }  # fmt: skip
    return pl.DataFrame([known], schema={field.name: field.dtype for field in fields})
