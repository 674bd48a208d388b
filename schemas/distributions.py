"""A quantity that varies, as a scenario file writes it in place of a number: quantiles, log-normals or values."""

import math
from itertools import pairwise
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, model_validator

#: The quantiles that a file may give, by field, and the shares below them.
QUANTILE_SHARES: Final = {"p10": 0.1, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95, "p99": 0.99}
_MOST_VALUES: Final = 10_000
_MOST_PARTS: Final = 20

Value = Annotated[float, Field(ge=0.0, le=1e9)]
Weight = Annotated[float, Field(ge=0.0, le=1e12)]


class LogNormalPart(BaseModel):
    """One log-normal of a mixture: its weight, its median and the deviation of the logarithm."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    weight: Weight = 1.0
    median: float = Field(gt=0.0, le=1e9)
    sigma: float = Field(gt=0.0, le=5.0)


class Distribution(BaseModel):
    """One of three forms, in the unit of the field that it stands for:

    quantiles ``mean`` with one or more of ``p10`` ... ``p99``; ``log_normals``, with ``zero_fraction`` for values
    of exactly 0; ``values``, with ``weights`` if they are not alike. ``least`` and ``most`` cut the first two.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    mean: Value | None = None
    least: Value | None = None
    p10: Value | None = None
    p25: Value | None = None
    p50: Value | None = None
    p75: Value | None = None
    p90: Value | None = None
    p95: Value | None = None
    p99: Value | None = None
    most: Value | None = None
    log_normals: tuple[LogNormalPart, ...] | None = None
    zero_fraction: float = Field(default=0.0, ge=0.0, lt=1.0)
    values: tuple[Value, ...] | None = None
    weights: tuple[Weight, ...] | None = None

    @model_validator(mode="after")
    def _is_one_form(self) -> "Distribution":
        forms = {
            "quantiles": bool(self.known_quantiles),
            "log_normals": self.log_normals is not None,
            "values": self.values is not None,
        }
        given = [name for name, there in forms.items() if there]
        if len(given) != 1:
            raise ValueError(
                "a distribution is one of three: `mean` with one or more of p10 ... p99, `log_normals` or `values`;"
                f" given are {' and '.join(given) or 'none of them'}"
            )
        if self.log_normals is None and self.zero_fraction:
            raise ValueError("zero_fraction goes with log_normals")
        if self.values is None and self.weights is not None:
            raise ValueError("weights goes with values")
        if self.values is not None:
            self._check_values()
        elif self.least is not None and self.most is not None and self.least > self.most:
            raise ValueError("least must not exceed most")
        if self.log_normals is not None:
            self._check_log_normals()
        if self.known_quantiles:
            self._check_quantiles()
        return self

    def _check_values(self) -> None:
        assert self.values is not None
        if self.mean is not None or self.least is not None or self.most is not None:
            raise ValueError("mean, least and most follow from the values: leave them out")
        if not 0 < len(self.values) <= _MOST_VALUES:
            raise ValueError(f"there are {len(self.values):,} values: give 1 to {_MOST_VALUES:,}")
        if self.weights is not None and len(self.weights) != len(self.values):
            raise ValueError(f"there are {len(self.values)} values and {len(self.weights)} weights: give one each")
        if self.weights is not None and not sum(self.weights) > 0:
            raise ValueError("one of the weights must be more than 0")

    def _check_log_normals(self) -> None:
        assert self.log_normals is not None
        if self.mean is not None:
            raise ValueError("the mean follows from the log_normals: leave it out")
        if not 0 < len(self.log_normals) <= _MOST_PARTS:
            raise ValueError(f"there are {len(self.log_normals):,} log_normals: give 1 to {_MOST_PARTS}")
        if not sum(part.weight for part in self.log_normals) > 0:
            raise ValueError("one of the weights of the log_normals must be more than 0")
        if self.least is not None and self.least > 0 and self.zero_fraction:
            raise ValueError("with a zero_fraction least must be 0")

    def _check_quantiles(self) -> None:
        if self.mean is None:
            raise ValueError("quantiles need the mean beside them")
        if len(self.known_quantiles) == 1 and not (self.p50 is not None and self.p50 <= self.mean):
            raise ValueError("one quantile alone must be the p50, and not above the mean: give another beside it")
        known = {"least": self.least, **self.known_quantiles, "most": self.most}
        told = [(name, value) for name, value in known.items() if value is not None]
        for (low, at_low), (high, at_high) in pairwise(told):
            if at_low > at_high:
                raise ValueError(f"{low} ({at_low:g}) must not exceed {high} ({at_high:g})")
        lowest, highest = self._mean_bounds()
        # means and quantiles of a trace are rounded
        if not lowest * (1 - 1e-3) <= self.mean <= highest * (1 + 1e-3):
            raise ValueError(f"mean {self.mean:g} cannot be with these quantiles: they allow {lowest:g} to {highest:g}")

    def _mean_bounds(self) -> tuple[float, float]:
        shares = [0.0, *(QUANTILE_SHARES[name] for name in self.known_quantiles), 1.0]
        most = math.inf if self.most is None else self.most
        at = [self.least or 0.0, *self.known_quantiles.values(), most]
        widths = [high - low for low, high in pairwise(shares)]
        lowest = sum(width * low for width, (low, _) in zip(widths, pairwise(at), strict=True))
        return lowest, sum(width * high for width, (_, high) in zip(widths, pairwise(at), strict=True))

    @property
    def known_quantiles(self) -> dict[str, float]:
        """The quantiles that are given, ascending."""
        named = ((name, getattr(self, name)) for name in QUANTILE_SHARES)
        return {name: value for name, value in named if value is not None}

    @property
    def mean_value(self) -> float:
        """The mean, given or in closed form."""
        if self.values is not None:
            weights = self.weights or (1.0,) * len(self.values)
            return math.fsum(v * w for v, w in zip(self.values, weights, strict=True)) / math.fsum(weights)
        if self.log_normals is not None:
            total = math.fsum(part.weight for part in self.log_normals)
            parts = (part.weight / total * _cut_mean(part, self.least, self.most) for part in self.log_normals)
            return (1.0 - self.zero_fraction) * math.fsum(parts)
        assert self.mean is not None
        return self.mean

    @property
    def smallest_told(self) -> float:
        """The smallest number of the file that is a value of the quantity; infinite where none is."""
        told = [self.least, *self.known_quantiles.values(), self.most, *(self.values or ())]
        zero = [0.0] if self.zero_fraction else []
        return min([value for value in told if value is not None] + zero, default=math.inf)


class Distributions(BaseModel):
    """How quantities of a scenario vary about their means: the form of each, scaled to the mean beside it."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    turns: Distribution | None = Field(default=None, description="of the tasks")
    think_time_s: Distribution | None = Field(default=None, description="of the pauses")
    initial_prompt_tokens: Distribution | None = Field(default=None, description="of the tasks")
    new_tokens_per_turn: Distribution | None = Field(default=None, description="of the later turns")
    output_tokens_per_turn: Distribution | None = Field(default=None, description="of the turns")

    @model_validator(mode="after")
    def _values_are_possible(self) -> "Distributions":
        for name in ("turns", "output_tokens_per_turn"):
            found: Distribution | None = getattr(self, name)
            if found is not None and found.smallest_told < 1:
                raise ValueError(f"{name}: {found.smallest_told:g} is below 1, which no task has")
        return self


def _cut_mean(part: LogNormalPart, least: float | None, most: float | None) -> float:
    """Mean of a log-normal whose values below ``least`` and above ``most`` are cut to these."""

    def within(limit: float) -> float:
        """``E[min(X, limit)]``."""
        if limit <= 0:
            return 0.0
        score = (math.log(limit) - math.log(part.median)) / part.sigma
        whole = part.median * math.exp(part.sigma**2 / 2)
        return whole * _normal(score - part.sigma) + limit * (1 - _normal(score))

    mean = part.median * math.exp(part.sigma**2 / 2) if most is None else within(most)
    return mean if not least else mean - within(least) + least


def _normal(score: float) -> float:
    return math.erfc(-score / math.sqrt(2)) / 2
