"""Quantiles of a stream of numbers in bounded memory."""

from array import array

import numpy as np
import numpy.typing as npt

from schemas.arrays import Array
from schemas.trace_statistics import Spread

_MANTISSA = 512  # buckets an octave: values are kept to 10 binary digits, whole numbers below 1,024 exactly
_LOWEST, _HIGHEST = -20, 50  # octaves: 1e-6 to 1e15
_BUCKETS = (_HIGHEST - _LOWEST) * _MANTISSA
_BUFFERED = 8_192


class Histogram:
    """Counts numbers of 0 or more by their first 10 binary digits (within 0.1 %); sum, least and most are exact."""

    def __init__(self) -> None:
        self._buffer = array("d")
        self._counts: npt.NDArray[np.int64] = np.zeros(_BUCKETS + 1, dtype=np.int64)  # the first: zeros
        self._count = 0
        self._sum = 0.0
        self._least = np.inf
        self._most = 0.0

    def add(self, value: float) -> None:
        """Count one number, 0 or more."""
        self._buffer.append(value)
        if len(self._buffer) >= _BUFFERED:
            self._flush()

    @property
    def count(self) -> int:
        return self._count + len(self._buffer)

    @property
    def mean(self) -> float:
        """Mean of the numbers; 0 where there are none."""
        self._flush()
        return self._sum / self._count if self._count else 0.0

    @property
    def zeros(self) -> int:
        self._flush()
        return int(self._counts[0])

    def values(self) -> tuple[Array, Array]:
        """The values above 0, ascending, and how often each came."""
        self._flush()
        taken = np.flatnonzero(self._counts[1:])
        octave, step = np.divmod(taken, _MANTISSA)
        values = np.ldexp((step + _MANTISSA) / (2 * _MANTISSA), octave + _LOWEST)
        return values, self._counts[taken + 1].astype(np.float64)

    def quantile(self, share: float) -> float:
        """The value that this share of the numbers does not exceed; the middle of two where it ends on one."""
        values, counts = self.values()
        values = np.concatenate(([0.0], values))
        total = np.cumsum(np.concatenate(([self.zeros], counts)))
        rank = share * self._count
        at = int(np.searchsorted(total, rank * (1 - 1e-12)))
        after = int(np.searchsorted(total, rank * (1 + 1e-12), side="right"))
        after = min(after, len(values) - 1)
        middle = (values[at] + values[after]) / 2 if 0 < share < 1 else values[at]
        return float(np.clip(middle, self._least, self._most))

    def spread(self) -> Spread | None:
        """Mean and quantiles; None where nothing was counted."""
        self._flush()
        if not self._count:
            return None
        shares = {"p10": 0.1, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95, "p99": 0.99}
        return Spread(
            count=self._count,
            mean=significant(self.mean),
            least=significant(float(self._least)),
            most=significant(self._most),
            **{name: significant(self.quantile(share)) for name, share in shares.items()},
        )

    def _flush(self) -> None:
        if not self._buffer:
            return
        values = np.frombuffer(self._buffer, dtype=np.float64)
        mantissa, exponent = np.frexp(values)  # value = mantissa * 2**exponent, mantissa in [0.5, 1)
        step = np.rint((mantissa * 2 - 1) * _MANTISSA).astype(np.int64)
        bucket = (exponent.astype(np.int64) - _LOWEST) * _MANTISSA + step
        bucket = np.where(values > 0, np.clip(bucket, 0, _BUCKETS - 1) + 1, 0)
        self._counts += np.bincount(bucket, minlength=_BUCKETS + 1)
        self._count += len(values)
        self._sum += float(values.sum())
        self._least = min(self._least, float(values.min()))
        self._most = max(self._most, float(values.max()))
        self._buffer = array("d")


def significant(value: float, digits: int = 6) -> float:
    """The value to so many significant digits."""
    return float(f"{value:.{digits}g}")
