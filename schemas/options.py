"""What a user can choose: typed models with their defaults, their limits and their meaning, each written once.

The command line makes its options of these fields, and its help of their descriptions.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

KvContext = Literal["mean", "p95", "peak"]
ClosedLoop = Literal["arrival", "article"]
KvLayout = Literal["ideal", "paged"]
Pool = Literal["prefill", "decode"]
IdleKv = Literal["resident", "dropped", "offloaded"]
OverCapacity = Literal["wait", "thrash"]
RooflinePreset = Literal["calibrated", "article"]
Backend = Literal["trtllm", "vllm", "sglang"]
Statistic = Literal["mean", "p50", "p90", "p95", "p99"]


@dataclass(frozen=True)
class GivenAs:
    """How a person gives a field where that is not its own name and unit: ``wait_s`` as minutes, for example.

    ``factor``: what one of the person's units is in the field's. ``formerly``: a name that the option had before.
    """

    name: str | None = None
    factor: float = 1.0
    metavar: str | None = None
    environment: str | None = None
    formerly: str | None = None


def _lengths(text: str) -> str:
    if not re.fullmatch(r"[1-9][0-9]{0,6}/[1-9][0-9]{0,6}", text):
        raise ValueError(f"{text!r} is not tokens in and tokens out, such as 4000/1000")
    return text


Workload = Annotated[str, AfterValidator(_lengths)]


def without_credentials(place: Path) -> Path:
    """The place of a lake. ``ValueError`` for a URL with a user or a password in it, which it does not repeat."""
    if re.match(r"[a-z][a-z0-9+.-]*:/{1,2}[^/]*@", str(place)):
        raise ValueError(
            "the address has a user or a password before the @, and would stand in logs: leave them out and give them "
            "by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile (AWS_PROFILE)"
        )
    return place


class MappingOptions(BaseModel):
    """How serving points are carried to agents."""

    model_config = ConfigDict(title="Carrying points to agents", extra="forbid", frozen=True, allow_inf_nan=False)

    kv_context: KvContext = Field(default="mean", description="Context at which a session's KV counts.")
    kv_layout: KvLayout = Field(
        default="paged", description="paged: sliding windows free nothing (safe); ideal: all they can."
    )
    parked_kv: Pool = Field(
        default="prefill", description="Pool of a disaggregated replica that keeps the KV of pausing sessions."
    )
    idle_kv: IdleKv = Field(
        default="resident",
        description="KV of a pausing session: stays on the GPU, is dropped, or moves to the host.",
    )
    host_memory_bytes_per_gpu: Annotated[float, GivenAs("host_memory_gb", factor=1e9)] = Field(
        default=0.0, ge=0.0, le=1e15, description="Host memory for idle KV, 10^9 bytes per GPU."
    )
    over_capacity: OverCapacity | None = Field(
        default=None,
        description="Sessions whose KV the memory does not hold wait until it does, or thrash: all are let in and idle "
        "KV is evicted, least recently used first (default: thrash where a scenario's cache is lru, else wait).",
    )
    closed_loop: ClosedLoop = Field(
        default="arrival", description="arrival: a session meets the others; article: C = B/rho."
    )
    reserve_fraction: float | None = Field(
        default=None,
        ge=0.0,
        le=0.99,
        description="GPU memory kept from weights and KV. Without: as vLLM, SGLang and TensorRT-LLM each keep it by "
        "their own defaults; of other engines and rooflines 0.10.",
    )
    overhead_bytes_per_gpu: Annotated[float, GivenAs("overhead_gb", factor=1e9)] = Field(
        default=0.0,
        ge=0.0,
        le=1e13,
        description="Memory of the runtime on each GPU beside the reserve, 10^9 bytes.",
    )
    cluster_gpus: int | None = Field(
        default=None, ge=1, le=10**9, description="GPUs of the cluster: idle ones count against it."
    )

    @model_validator(mode="after")
    def _host_memory_where_it_counts(self) -> "MappingOptions":
        if (self.idle_kv == "offloaded") != (self.host_memory_bytes_per_gpu > 0):
            raise ValueError("--idle-kv offloaded and --host-memory-gb go together: give both or neither")
        return self


class InputOptions(BaseModel):
    """What a build reads: tables, scenarios, catalogues."""

    model_config = ConfigDict(title="Tables and scenarios", extra="forbid", frozen=True, allow_inf_nan=False)

    tables: tuple[Path, ...] = Field(
        default=(), description="A table file or a folder of them; may be repeated. Without: those in data/."
    )
    scenarios: tuple[str, ...] = Field(
        default=(), description="A scenario file or a slug; may be repeated. Without: the catalogue."
    )
    synthesize: bool | None = Field(
        default=None,
        description="Add roofline points for each hardware x model that no table covers (default: on without --tables "
        "and --source, off with).",
    )
    share: bool | None = Field(
        default=None,
        description="Rows of a model serve the other models of its architecture too, marked by shared_from (default: "
        "on without --tables and --source, off with).",
    )
    roofline: RooflinePreset = Field(
        default="calibrated",
        description="Equations of synthesised points; article: Eqs. 1-3c and nothing more.",
    )
    hardware: Path | None = Field(default=None, description="Your own hardware catalogue, beside the shipped one.")
    models: Path | None = Field(
        default=None, description="Your own model catalogue, beside the shipped one. Without: that of `models add`."
    )
    calibrate: bool = Field(
        default=True,
        description="Fit an engine to each measured deployment with two rows or more (default), or carry measured rows "
        "by ratio.",
    )
    engines: Path | None = Field(
        default=None, description="Engines that `calibrate --out FILE` wrote: of a deployment they come first."
    )
    prices: Path | None = Field(
        default=None, description="Your price list, USD per GPU-hour: fills the cost columns, else NULL."
    )
    evaluation: Path | None = Field(
        default=None, description="Errors that `evaluate --save FILE` wrote: the release carries them."
    )


class LiveOptions(BaseModel):
    """What AIConfigurator is asked for, and where it is. A release holds its answers, so none of this is content."""

    model_config = ConfigDict(title="Asking AIConfigurator", extra="forbid", frozen=True, allow_inf_nan=False)

    source: Literal["aiconfigurator"] | None = Field(
        default=None,
        description="Have tables made: ask AIConfigurator for the standard workload and for each scenario's own turns.",
    )
    system: tuple[str, ...] = Field(default=(), description="GPU to ask for: h200_sxm, or our slug; may be repeated.")
    model: tuple[str, ...] = Field(
        default=(), description="Model to ask for: Qwen/Qwen3-32B, or our slug; may be repeated."
    )
    backend: tuple[Backend, ...] = Field(
        default=(), description="trtllm, vllm or sglang; may be repeated. Without: trtllm."
    )
    total_gpus: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        default=(), description="GPUs of a replica at most; may be repeated. Without: 8."
    )
    workload: tuple[Workload, ...] = Field(
        default=(), description="Standard workload to ask for, ISL/OSL; may be repeated. Without: 4000/1000."
    )
    aiconfigurator: Annotated[Path | None, GivenAs(environment="AGENT_PARETO_AICONFIGURATOR")] = Field(
        default=None,
        description="Environment that has AIConfigurator, its Python or the program. Without: this one, then the PATH.",
    )
    aiconfigurator_cache: Annotated[Path | None, GivenAs(environment="AGENT_PARETO_AICONFIGURATOR_CACHE")] = Field(
        default=None,
        description="Folder that keeps its answers. Without: agent-pareto/aiconfigurator in the user's cache.",
    )

    @model_validator(mode="after")
    def _asked_for_something(self) -> "LiveOptions":
        about = ("system", "model", "backend", "total_gpus", "workload")
        given = [name for name in about if getattr(self, name)]
        if self.source is None and given:
            option = given[0].replace("_", "-")
            raise ValueError(f"--{option} says what AIConfigurator is asked: give --source aiconfigurator too")
        if self.source is not None and not (self.system and self.model):
            raise ValueError(
                "--source aiconfigurator needs a GPU and a model: --system h200_sxm --model Qwen/Qwen3-32B for example"
            )
        return self


class BuildOptions(MappingOptions, LiveOptions, InputOptions):
    """All options of a build; what a scheduled run is given too."""

    model_config = ConfigDict(title="The build")

    out: Annotated[Path, AfterValidator(without_credentials)] = Field(
        default=Path("lake"), description="The lake: a folder, or s3://bucket/prefix."
    )
    runner: Literal["threads", "dask"] = Field(
        default="threads", description="What runs the partitions; dask: processes, or a cluster."
    )
    strict: bool = Field(default=False, description="Publish nothing if a row is quarantined or a file rejected.")

    @property
    def uses_shipped_tables(self) -> bool:
        """Whether no other tables are named or asked for."""
        return not self.tables and self.source is None

    @property
    def mapping(self) -> MappingOptions:
        """The part that concerns the mapping alone."""
        return MappingOptions.model_validate({name: getattr(self, name) for name in MappingOptions.model_fields})


class RunOptions(BaseModel):
    """How a build is run. None of it changes what a release holds."""

    model_config = ConfigDict(title="The build", extra="forbid", frozen=True)

    threads: int | None = Field(
        default=None,
        ge=1,
        description="Threads that read files and carry points. Without: the machine's cores, as far as memory lasts.",
    )
    dask_address: str | None = Field(
        default=None, description="A Dask cluster that sees the lake's folder under the same path."
    )
    full: bool = Field(default=False, description="Compute every partition, also those whose inputs are as before.")
    wait_s: Annotated[float, GivenAs("wait_minutes", factor=60.0)] = Field(
        default=600.0, ge=0.0, description="How long to wait while another build of the lake runs."
    )
    keep: int | None = Field(
        default=None,
        ge=1,
        description="Releases to keep after publishing, as `releases prune`. Without: all.",
    )


class PlanLimits(BaseModel):
    """What a plan must keep to; None: no such limit."""

    model_config = ConfigDict(title="Limits", extra="forbid", frozen=True)

    max_ttft_s: Annotated[float | None, GivenAs("max_ttft", metavar="S")] = Field(
        default=None, description="Longest time to the first token of a turn, seconds."
    )
    max_turn_latency_s: Annotated[float | None, GivenAs("max_turn_latency", metavar="S")] = Field(
        default=None, description="Longest latency of a turn, seconds."
    )
    max_task_time_s: Annotated[float | None, GivenAs("max_task_time", metavar="S")] = Field(
        default=None, description="Longest time of a task, seconds, pauses counted."
    )
    min_tokens_per_s_per_user: Annotated[
        float | None, GivenAs("min_speed", metavar="X", formerly="min_tokens_per_s_per_user")
    ] = Field(default=None, description="Least output tokens of a turn over its latency.")
    at: Statistic = Field(default="mean", description="Where the limits hold: at the mean, or at a percentile.")
