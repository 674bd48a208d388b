"""The curve of a serving station: turn latency by the number of requests in flight."""

from dataclasses import dataclass, replace

import numpy as np

from schemas.arrays import Array


@dataclass(frozen=True)
class Curve:
    """R(b) in seconds at one of ``stations`` equal stations, linear between the points that are known.

    Below the first point R is that of the first; above the last, the rate stays that of the last: neither
    end says more. ``in_flight`` rises.
    """

    name: str
    in_flight: Array
    latency_s: Array
    stations: int = 1

    def latency_at(self, in_flight: Array) -> Array:
        """R with so many requests in flight at the station, in seconds."""
        last_b, last_r = self.in_flight[-1], self.latency_s[-1]
        inside = np.interp(in_flight, self.in_flight, self.latency_s)
        return np.asarray(np.where(in_flight > last_b, in_flight * last_r / last_b, inside), np.float64)

    def rates(self, sessions: int) -> Array:
        """X(n) = n / R(n), turns per second of a station with n = 1 ... ``sessions`` in flight."""
        n = np.arange(1, sessions + 1, dtype=np.float64)
        return n / self.latency_at(n)

    @property
    def station(self) -> "Curve":
        """One of the stations alone."""
        return replace(self, stations=1)

    def steepness(self, lowest: int, highest: int) -> float:
        """The steepest log-log slope of R over n between two whole numbers in flight: 0 flat, 1 saturated."""
        n = np.arange(max(lowest, 1), max(highest, lowest + 1, 2) + 1, dtype=np.float64)
        return float((np.diff(np.log(self.latency_at(n))) / np.diff(np.log(n))).max())
