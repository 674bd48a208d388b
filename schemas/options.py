"""What a user can choose about a build: one typed model, its defaults and their meaning."""

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PositiveInt, model_validator

KvContext = Literal["mean", "p95", "peak"]
ClosedLoop = Literal["arrival", "article"]
KvLayout = Literal["ideal", "paged"]
Pool = Literal["prefill", "decode"]
IdleKv = Literal["resident", "dropped", "offloaded"]
OverCapacity = Literal["wait", "thrash"]
RooflinePreset = Literal["calibrated", "article"]
Backend = Literal["trtllm", "vllm", "sglang"]


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

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    kv_context: KvContext = Field(default="mean", description="context at which a session's KV is counted")
    closed_loop: ClosedLoop = Field(default="arrival", description="sessions that fill a replica")
    reserve_fraction: float = Field(
        default=0.10, ge=0.0, lt=1.0, description="share of GPU memory kept from weights and KV"
    )
    overhead_bytes_per_gpu: float = Field(
        default=0.0, ge=0.0, le=1e13, description="memory of the runtime on each GPU beside the reserve, bytes"
    )
    idle_kv: IdleKv = Field(
        default="resident", description="KV of a pausing session: stays, is dropped, or moves to host memory"
    )
    host_memory_bytes_per_gpu: float = Field(
        default=0.0, ge=0.0, le=1e15, description="host memory for idle KV, bytes per GPU; with idle_kv offloaded"
    )
    over_capacity: OverCapacity | None = Field(
        default=None,
        description="sessions whose KV the memory does not hold: wait, or thrash (idle KV is evicted, least recently "
        "used first); None: thrash where the scenario's cache is lru, else wait",
    )
    kv_layout: KvLayout = Field(default="paged", description="what sliding windows free: ideal all, paged nothing")
    parked_kv: Pool = Field(default="prefill", description="pool of a disaggregated replica that keeps idle KV")
    cluster_gpus: PositiveInt | None = Field(
        default=None, le=10**9, description="GPUs of the cluster; None: no cluster view"
    )

    @model_validator(mode="after")
    def _host_memory_where_it_counts(self) -> "MappingOptions":
        if (self.idle_kv == "offloaded") != (self.host_memory_bytes_per_gpu > 0):
            raise ValueError("--idle-kv offloaded and --host-memory-gb go together: give both or neither")
        return self


class LiveOptions(BaseModel):
    """What AIConfigurator is asked for, and where it is. A release holds its answers, so none of this is content."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    source: Literal["aiconfigurator"] | None = Field(default=None, description="the tool to ask; None: none")
    system: tuple[str, ...] = Field(default=(), description="GPUs, by our names or the tool's")
    model: tuple[str, ...] = Field(default=(), description="models, by our names or the tool's")
    backend: tuple[Backend, ...] = Field(default=(), description="serving engines; none: TensorRT-LLM")
    total_gpus: tuple[PositiveInt, ...] = Field(default=(), description="GPUs of a deployment at most; none: 8")
    workload: tuple[Workload, ...] = Field(default=(), description="standard workloads, ISL/OSL; none: 4000/1000")
    aiconfigurator: Path | None = Field(
        default=None, description="environment that has AIConfigurator, or its Python; None: this one, or the PATH"
    )
    aiconfigurator_cache: Path | None = Field(default=None, description="folder of answers; None: the user's cache")

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


class BuildOptions(MappingOptions, LiveOptions):
    """All options of a build; what a scheduled run is given too."""

    tables: tuple[Path, ...] = Field(
        default=(), description="files and folders of tables; none, and nothing asked for: the shipped ones"
    )
    scenarios: tuple[str, ...] = Field(default=(), description="scenario files and slugs; none: the shipped ones")
    synthesize: bool | None = Field(
        default=None, description="roofline points where no table covers; None: only with the shipped tables"
    )
    roofline: RooflinePreset = Field(default="calibrated", description="equations of the synthesised points")
    hardware: Path | None = Field(default=None, description="a user's own hardware catalogue")
    models: Path | None = Field(default=None, description="a user's own model catalogue")
    prices: Path | None = Field(default=None, description="a price list of GPU-hours; None: no cost columns")
    out: Annotated[Path, AfterValidator(without_credentials)] = Field(
        default=Path("lake"), description="folder of the lake"
    )
    evaluation: Path | None = Field(
        default=None, description="errors that `evaluate --save` wrote, for the release to carry; none: no such table"
    )
    runner: Literal["threads", "dask"] = Field(default="threads", description="what runs the partitions")
    strict: bool = Field(default=False, description="publish nothing if a row or file is not used")

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

    model_config = ConfigDict(extra="forbid", frozen=True)

    full: bool = Field(default=False, description="compute every partition, also those whose inputs are as before")
    wait_s: float = Field(default=600.0, ge=0.0, description="how long to wait for another build of the lake, seconds")
    keep: PositiveInt | None = Field(default=None, description="releases to keep after publishing; None: all")
    dask_address: str | None = Field(default=None, description="scheduler of a Dask cluster; None: a local one")
