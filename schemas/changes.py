"""What questions to a lake change of a scenario, and of what serves it; what is None stays as it is."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from schemas.caches import Routing
from schemas.dtypes import KvDtype
from schemas.options import GivenAs, IdleKv, KvContext, OverCapacity, Pool


class WorkloadChanges(BaseModel):
    """What `plan` and `what-if` change of a scenario."""

    model_config = ConfigDict(title="Changes of the scenario", extra="forbid", frozen=True)

    think_time_s: Annotated[float | None, GivenAs(metavar="Z")] = Field(
        default=None, description="Mean pause after each turn, seconds."
    )
    cache_hit_rate: Annotated[float | None, GivenAs(metavar="H")] = Field(
        default=None, description="Chance that a turn finds its prefix cached."
    )
    cache: Literal["ttl", "lru"] | None = Field(
        default=None,
        description="What decides about hits in place of a stated chance: a time-out (--kept-s), or memory, which "
        "evicts what was used longest ago.",
    )
    kept_s: Annotated[float | None, GivenAs(metavar="T")] = Field(
        default=None, description="Longest pause that a prefix outlives, seconds, of --cache ttl."
    )
    turns: Annotated[float | None, GivenAs(metavar="N")] = Field(default=None, description="Mean turns of a task.")
    initial_prompt_tokens: Annotated[float | None, GivenAs(metavar="L0")] = Field(
        default=None, description="Context of turn 1."
    )
    new_tokens_per_turn: Annotated[float | None, GivenAs(metavar="DL")] = Field(
        default=None, description="Tokens from outside in a later turn."
    )
    output_tokens_per_turn: Annotated[float | None, GivenAs(metavar="OSL")] = Field(
        default=None, description="Generated tokens of a turn."
    )


class ScenarioChanges(WorkloadChanges):
    """What `what-if` changes of a scenario, its routing and operating point too."""

    model_config = ConfigDict(title="Routing and operating point", extra="forbid", frozen=True)

    routing: Routing | None = Field(
        default=None, description="sticky: a session's turns go to one replica; random: each to any of them."
    )
    replicas: Annotated[int | None, GivenAs(metavar="N")] = Field(
        default=None, description="Replicas that random routing chooses among; else as many as --gpus hold."
    )
    sessions: Annotated[int | None, GivenAs(metavar="C")] = Field(
        default=None, description="Sessions of the operating point."
    )
    gpus: Annotated[int | None, GivenAs(metavar="G")] = Field(
        default=None, description="GPUs that serve those sessions."
    )


class ServingChanges(BaseModel):
    """What `what-if` changes of what serves a scenario, beside the options of the build."""

    model_config = ConfigDict(title="Changes of what serves it", extra="forbid", frozen=True)

    parked_kv: Pool | None = Field(
        default=None, description="Pool of a disaggregated replica that keeps the KV of pausing sessions."
    )
    idle_kv: IdleKv | None = Field(
        default=None, description="KV of a pausing session: stays on the GPU, is dropped, or moves to the host."
    )
    host_memory_gb: Annotated[float | None, GivenAs(metavar="GB")] = Field(
        default=None, ge=0.0, le=1e6, description="Host memory for idle KV, 10^9 bytes per GPU."
    )
    host_link_gb_per_s: Annotated[float | None, GivenAs(metavar="GB/S")] = Field(
        default=None, gt=0.0, le=1e5, description="Bandwidth between a GPU and its host, 10^9 bytes a second each way."
    )
    over_capacity: OverCapacity | None = Field(
        default=None, description="Sessions whose KV the memory does not hold wait, or thrash."
    )
    kv_context: KvContext | None = Field(default=None, description="Context at which a session's KV counts.")
    kv_dtype: KvDtype | None = Field(
        default=None, description="KV in this precision alone after the change, of the lake's own points."
    )
