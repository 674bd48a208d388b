"""``source.yaml``: what a folder's tables do not say themselves about their runs.

It stands beside the tables and says it of all of them; ``files`` says more of some. Names, units and
meanings are those of the dictionary of fields.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model, model_validator

from schemas.dtypes import KvDtype, WeightDtype
from schemas.moments import parse_moment
from schemas.sentences import show

SIDECAR_NAME: Final = "source.yaml"


def _moment(value: object) -> object:
    """Text as a moment in UTC."""
    if isinstance(value, datetime) or value is None:
        return value
    try:
        return parse_moment(value if isinstance(value, str) else "")
    except ValueError:
        demand = "must be a date or a time: 2026-03-01 or 2026-03-01T14:30:00Z"
        raise ValueError(f"measured_at is {show(value)}, {demand}") from None


Words = Annotated[str, Field(min_length=1, max_length=300)]
Count = Annotated[int, Field(ge=1, le=10**6)]
Tokens = Annotated[float, Field(gt=0.0, le=1e9)]
Moment = Annotated[datetime, BeforeValidator(_moment)]

#: Fields of one worker's shape; a shape that is given is 1 in what it does not name.
SHAPE: Final = ("tp", "pp", "dp", "cp", "moe_tp", "moe_ep")
POOL_SHAPE: Final = tuple(f"{pool}_{name}" for pool in ("prefill", "decode") for name in ("workers", *SHAPE))


#: Ranks of attention in names of files and deployments.
_SHORTHAND: Final = re.compile(r"(?<![a-z0-9])(tp|tep|dp|dep)(\d{1,4})(?![a-z0-9])")


class Facts(BaseModel):
    """What can be said of a run. ``None``: not said here."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    run: Words | None = Field(default=None, description="name of the run")
    measured_at: Moment | None = Field(default=None, description="when it was measured: the later run is the newer")
    tool: Words | None = Field(default=None, description="tool that wrote the file")
    tool_version: Words | None = None
    hardware: Words | None = Field(default=None, description="GPU: slug or alias of the catalogue")
    prefill_hardware: Words | None = Field(default=None, description="GPU that prefills, where the two differ")
    decode_hardware: Words | None = Field(default=None, description="GPU that decodes, where the two differ")
    model: Words | None = Field(default=None, description="model: slug or alias of the catalogue")
    weight_dtype: WeightDtype | None = Field(default=None, description="all weights, where no other says more")
    linear_dtype: WeightDtype | None = Field(default=None, description="attention, dense MLP, shared experts")
    expert_dtype: WeightDtype | None = Field(default=None, description="routed experts")
    kv_dtype: KvDtype | None = None
    attention_dtype: Literal["bf16", "fp8"] | None = Field(default=None, description="arithmetic of prefill attention")
    backend: Words | None = Field(default=None, description="inference engine: vllm, sglang, trtllm, ...")
    backend_version: Words | None = None
    serving_mode: Literal["agg", "disagg"] | None = None
    replicas: Count | None = Field(default=None, description="replicas that shared the load measured; 1 if not said")
    tp: Count | None = None
    pp: Count | None = None
    dp: Count | None = None
    cp: Count | None = None
    moe_tp: Count | None = None
    moe_ep: Count | None = None
    prefill_workers: Count | None = None
    prefill_tp: Count | None = None
    prefill_pp: Count | None = None
    prefill_dp: Count | None = None
    prefill_cp: Count | None = None
    prefill_moe_tp: Count | None = None
    prefill_moe_ep: Count | None = None
    decode_workers: Count | None = None
    decode_tp: Count | None = None
    decode_pp: Count | None = None
    decode_dp: Count | None = None
    decode_cp: Count | None = None
    decode_moe_tp: Count | None = None
    decode_moe_ep: Count | None = None
    isl_tokens: Tokens | None = Field(default=None, description="mean input length, the cached part included")
    osl_tokens: Annotated[float, Field(ge=1.0, le=1e9)] | None = Field(default=None, description="mean output length")
    prefix_tokens: Annotated[float, Field(ge=0.0, le=1e9)] | None = Field(
        default=None, description="mean part of the input found in the cache; 0 if not said"
    )
    concurrency_reported: Tokens | None = Field(
        default=None, description="requests that the load kept in flight, over all replicas"
    )
    latency_statistic: Literal["mean", "p50"] | None = Field(default=None, description="mean if not said")
    draft_tokens: Annotated[int, Field(ge=0, le=1000)] | None = Field(
        default=None, description="tokens drafted in a step (MTP, speculative decoding); 0 if not said"
    )
    accepted_tokens: Annotated[float, Field(ge=1.0, le=1000.0)] | None = Field(
        default=None, description="tokens that a step yields, from 1 to draft_tokens + 1; needed with draft_tokens"
    )
    kv_tokens: Annotated[int, Field(ge=1, le=10**12)] | None = Field(
        default=None, description="tokens that the KV cache of one replica holds, as its server prints it"
    )
    agent_run: bool | None = Field(
        default=None, description="true: a log of turns is a run of agents, not one standard row"
    )
    cache_hit_rate: Annotated[float, Field(ge=0.0, le=1.0)] | None = Field(
        default=None, description="share of the prompts' tokens that a run of agents found in the server's cache"
    )
    setting: Words | None = Field(
        default=None, description="what tells this run from others of its shape: a server flag, a label"
    )

    @model_validator(mode="after")
    def _parts_fit(self) -> "Facts":
        drafted, yielded = self.draft_tokens, self.accepted_tokens
        if drafted is not None and yielded is not None and yielded > drafted + 1:
            raise ValueError(
                f"accepted_tokens is {yielded:g}: a step that drafts {drafted} yields from 1 to {drafted + 1} tokens "
                "(the accepted ones and the model's own)"
            )
        if self.cache_hit_rate is not None and self.prefix_tokens is not None:
            raise ValueError("cache_hit_rate and prefix_tokens both say what the cache held: give one")
        mode, pools = self.serving_mode, [name for name in POOL_SHAPE if getattr(self, name) is not None]
        single = [name for name in SHAPE if getattr(self, name) is not None]
        if pools and single:
            raise ValueError(f"{pools[0]} is of a disaggregated replica, {single[0]} of an aggregated one: give one")
        if mode == "agg" and pools:
            raise ValueError(f"{pools[0]} is of a disaggregated replica, serving_mode is agg")
        if mode == "disagg" and single:
            raise ValueError(f"{single[0]} is of an aggregated replica: give prefill_{single[0]}, decode_{single[0]}")
        return self

    @property
    def said(self) -> dict[str, Any]:
        """The facts that are given, by field."""
        return {name: getattr(self, name) for name in Facts.model_fields if getattr(self, name) is not None}


class Column(BaseModel):
    """Where a field of a generic table stands. A name or a count has no unit."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    #: Unit -> factor that takes it to the field's own.
    factors: ClassVar[Mapping[str, float]] = {}

    column: Words

    @property
    def factor(self) -> float | None:
        """What a number of the column is multiplied by; None where the column has no unit."""
        return self.factors.get(getattr(self, "unit", ""))


class TimeColumn(Column):
    factors = {"ms": 1.0, "s": 1e3, "us": 1e-3}
    unit: Literal["ms", "s", "us"]


class BytesColumn(Column):
    factors = {"bytes": 1.0, "MB": 1e6, "GB": 1e9, "MiB": 2.0**20, "GiB": 2.0**30}
    unit: Literal["bytes", "MB", "GB", "MiB", "GiB"]


class TokensColumn(Column):
    factors = {"tokens": 1.0}
    unit: Literal["tokens"]


class RequestsColumn(Column):
    factors = {"requests": 1.0}
    unit: Literal["requests"]


class RequestRateColumn(Column):
    factors = {"requests/s": 1.0, "requests/min": 1 / 60}
    unit: Literal["requests/s", "requests/min"]


class TokenRateColumn(Column):
    factors = {"tokens/s": 1.0}
    unit: Literal["tokens/s"]


class TokenRatePerGpuColumn(Column):
    factors = {"tokens/s/gpu": 1.0}
    unit: Literal["tokens/s/gpu"]


class TokenRatePerUserColumn(Column):
    factors = {"tokens/s/user": 1.0}
    unit: Literal["tokens/s/user"]


#: Facts that hold for a whole file, not for a row of it.
_OF_THE_FILE: Final = frozenset({
    "run", "measured_at", "tool", "tool_version", "latency_statistic", "agent_run", "cache_hit_rate",
})  # fmt: skip
#: Field of a generic table -> the kind of column that it can stand in.
_COLUMN_KINDS: Final[Mapping[str, type[Column]]] = {
    **{name: Column for name in Facts.model_fields if name not in _OF_THE_FILE},
    "kv_tokens": TokensColumn,
    "isl_tokens": TokensColumn,
    "osl_tokens": TokensColumn,
    "prefix_tokens": TokensColumn,
    "concurrency_reported": RequestsColumn,
    "ttft_ms": TimeColumn,
    "tpot_ms": TimeColumn,
    "request_latency_ms": TimeColumn,
    "requests_per_s": RequestRateColumn,
    "output_tokens_per_s": TokenRateColumn,
    "output_tokens_per_s_per_gpu": TokenRatePerGpuColumn,
    "tokens_per_s_per_user": TokenRatePerUserColumn,
    "memory_bytes_per_gpu": BytesColumn,
}
_column_fields: Any = {name: (kind | None, None) for name, kind in _COLUMN_KINDS.items()}
#: ``columns`` of a sidecar: each field that a column can hold, with its own units.
Columns: Any = create_model("Columns", __config__=ConfigDict(extra="forbid", frozen=True), **_column_fields)


class Sidecar(Facts):
    """The whole ``source.yaml``."""

    licence: Words | None = Field(default=None, description="licence of the tables")
    note: str | None = None
    format: Literal["generic"] | None = Field(default=None, description="generic: the tables are read by `columns`")
    columns: Columns | None = Field(default=None, description="field -> column and unit")
    ignore_other_columns: bool = Field(default=False, description="leave columns unread that `columns` does not name")
    files: dict[str, Facts] = Field(default_factory=dict, description="glob of file names -> what holds for them")

    @property
    def mapped(self) -> dict[str, Column]:
        """The columns by field."""
        given = {} if self.columns is None else {name: getattr(self.columns, name) for name in _COLUMN_KINDS}
        return {name: column for name, column in given.items() if column is not None}

    @model_validator(mode="after")
    def _columns_fit(self) -> "Sidecar":
        if self.format is None and (self.columns is not None or self.ignore_other_columns):
            raise ValueError("columns are read from a generic table only: write `format: generic` too")
        if self.format is not None and not self.mapped:
            raise ValueError("`format: generic` needs `columns`: for each field its column, and its unit if it has one")
        taken: dict[str, str] = {}
        for field, source in self.mapped.items():
            if getattr(self, field, None) is not None:
                raise ValueError(f"{field} is given twice: for the whole file and as column {source.column!r}")
            if taken.setdefault(source.column, field) != field:
                raise ValueError(f"column {source.column!r} is both {taken[source.column]} and {field}")
        return self

    def _check_shape_in(self, name: str) -> None:
        """A name like ``sweep_dep8_conc4`` says a shape in the field's shorthand: TP and TEP split attention's heads,
        DP and DEP its sessions. A shape that is said of all files must not contradict it."""
        if self.tp is None and self.dp is None:
            return
        tp, dp = self.tp or 1, self.dp or 1
        found = _SHORTHAND.findall(name.casefold())
        splits = [word[0] for word, _ in found]
        if len(set(splits)) < len(splits):  # of two pools, or of a comparison
            return
        for word, count in found:
            # "tp8" is said of 8 GPUs of which attention is split by sessions, too
            fits = {"tp": {tp, tp * dp}, "tep": {tp} if dp == 1 else set(), "dp": {dp}, "dep": {dp}}[word]
            if int(count) not in fits:
                own = f"tp: {count}, dp: 1" if word[0] == "t" else f"dp: {count}, tp: 1"
                raise ValueError(
                    f"it says tp {tp}, dp {dp} of all files, and this one's name says {word}{count}: say the shape of "
                    f"such files in a line under `files`, `'*{word}{count}*': {{{own}}}` for one"
                )

    def for_file(self, name: str) -> "Sidecar":
        """What holds for the file of this name: ``files`` goes before what is said of all.

        Raises ``ValueError`` where two globs say different things of it, its parts do not fit, or its name says another
        shape than what is said of all.
        """
        said: dict[str, Any] = {}
        by: dict[str, str] = {}
        for glob, facts in self.files.items():
            if not fnmatchcase(name, glob):
                continue
            for field, value in facts.said.items():
                if said.setdefault(field, value) != value:
                    raise ValueError(f"files: {by[field]!r} and {glob!r} both give {field} of {name}; give it once")
                by.setdefault(field, glob)
        if not {*SHAPE, *POOL_SHAPE, "serving_mode"} & said.keys():
            self._check_shape_in(name)
        if not said:
            return self
        rest = {field: getattr(self, field) for field in Sidecar.model_fields if field not in ("files", *said)}
        return Sidecar.model_validate({**rest, **said})
