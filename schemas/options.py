"""What a user can choose about a build: one typed model, its defaults and their meaning."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator

KvContext = Literal["mean", "p95", "peak"]
ClosedLoop = Literal["arrival", "article"]
KvLayout = Literal["ideal", "paged"]
Pool = Literal["prefill", "decode"]
IdleKv = Literal["resident", "dropped", "offloaded"]
RooflinePreset = Literal["calibrated", "article"]


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


class BuildOptions(MappingOptions):
    """All options of a build; what a scheduled run is given too."""

    tables: tuple[Path, ...] = Field(default=(), description="files and folders of tables; none: the shipped ones")
    scenarios: tuple[str, ...] = Field(default=(), description="scenario files and slugs; none: the shipped ones")
    synthesize: bool | None = Field(
        default=None, description="roofline points where no table covers; None: only without tables"
    )
    roofline: RooflinePreset = Field(default="calibrated", description="equations of the synthesised points")
    hardware: Path | None = Field(default=None, description="a user's own hardware catalogue")
    models: Path | None = Field(default=None, description="a user's own model catalogue")
    out: Path = Field(default=Path("lake"), description="folder of the lake")
    evaluation: Path | None = Field(
        default=None, description="errors that `evaluate --save` wrote, for the release to carry; none: no such table"
    )
    runner: Literal["threads", "dask"] = Field(default="threads", description="what runs the partitions")
    strict: bool = Field(default=False, description="publish nothing if a row or file is not used")

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
