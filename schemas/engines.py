"""Engines: what is expected of one (``data/engine_priors.yaml``), and those fitted to rows (``engines.yaml``)."""

from typing import Any, Final

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationInfo,
    field_validator,
)

Matrix = tuple[tuple[FiniteFloat, ...], ...]

_STRICT = ConfigDict(extra="forbid", frozen=True)


class ModePrior(BaseModel):
    """What is expected in one serving mode: values, factors by trait, and the covariance of the logarithms."""

    model_config = _STRICT

    typical: dict[str, PositiveFloat]
    factors: dict[str, dict[str, PositiveFloat]] = Field(
        description="trait -> parameter -> factor on its typical value"
    )
    covariance: tuple[tuple[FiniteFloat, ...], ...] = Field(description="of the logarithms, in the order of typical")


class EnginePriors(BaseModel):
    """Parameters of engines as learnt from measured deployments."""

    model_config = _STRICT

    source: str
    deployments: PositiveInt
    agg: ModePrior
    disagg: ModePrior


class SeenRange(BaseModel):
    """Loads and contexts that an engine was fitted to; beyond them its errors grow."""

    model_config = _STRICT

    least_in_flight: NonNegativeFloat
    most_in_flight: NonNegativeFloat
    shortest_context_tokens: NonNegativeFloat
    longest_context_tokens: NonNegativeFloat


class RefusedRow(BaseModel):
    """A measured row that was not used, and why."""

    model_config = _STRICT

    source_file: str
    source_row: int
    reason: str
    detail: str


class LeaveOneOut(BaseModel):
    """Mean absolute relative errors of rows that were predicted from the others; None of a single row."""

    model_config = _STRICT

    turn_latency: NonNegativeFloat | None
    ttft: NonNegativeFloat | None
    throughput: NonNegativeFloat | None


class CalibratedEngine(BaseModel):
    """One deployment's engine. ``deployment`` holds the columns of ``serving_points`` that name it."""

    model_config = _STRICT

    deployment: dict[str, Any]
    rows_used: NonNegativeInt
    pilots: tuple[str, ...] = Field(default=(), description="measured agent runs that it was fitted to: file and row")
    kv_tokens: PositiveFloat | None = Field(default=None, description="KV memory in tokens, as the server says it")
    parameters: dict[str, PositiveFloat]
    meaning: tuple[str, ...] = ()
    covariance: Matrix = Field(description="of the logarithms, in the order of parameters")
    latency_left: NonNegativeFloat = Field(description="spread of the logarithm of latency beside the parameters'")
    ttft_left: NonNegativeFloat
    seen: SeenRange
    leave_one_out: LeaveOneOut
    cannot_tell: tuple[str, ...] = ()
    next_tests: tuple[str, ...] = ()
    refused: tuple[RefusedRow, ...] = ()

    @field_validator("covariance")
    @classmethod
    def _is_of_parameters(cls, rows: Matrix, info: ValidationInfo) -> Matrix:
        count = len(info.data.get("parameters", rows))
        if len(rows) != count or any(len(row) != count for row in rows):
            raise ValueError(f"must have {count} rows of {count} numbers, one for each of the parameters")
        if any(row[at] < 0.0 for at, row in enumerate(rows)):
            raise ValueError("must have no number below 0 on its diagonal, where the variances stand")
        return rows


class EnginesFile(BaseModel):
    """``engines.yaml``: what ``calibrate`` writes and a build may read."""

    model_config = _STRICT

    engines: tuple[CalibratedEngine, ...]


NO_ENGINES: Final = EnginesFile(engines=())
