"""Rows that no engine is fitted to, each with the reason: lockstep, and rows that contradict each other."""

from typing import Final

import numpy as np
import numpy.typing as npt

from schemas.arrays import Array
from transforms.calibration.facts import Facts
from transforms.calibration.fit import Measured
from transforms.calibration.step_model import Work, prefill_s, step_s
from transforms.numbers import Number

#: Runs of one deployment repeat within this factor in latency. Of 862 pairs of measured loads of which one asks for
#: more requests or longer prompts, none was further off the order that it takes longer.
REPEATABLE_FACTOR: Final = 1.25
#: A row whose latency is this factor off what all others say measures something else (a cold start, a stalled run).
CONTRADICTS_FACTOR: Final = 3.0


def lockstep(measured: Measured) -> npt.NDArray[np.bool_]:
    """Rows whose requests prefill together and then decode together: ``N * P > OSL * step``.

    In lockstep a request waits for half of all prefills, ``TTFT = (N + 1) / 2 * P``, and decodes undisturbed,
    ``TPOT = step``: the test is made with what the row itself says. Two in flight at least.
    """
    load = measured.load
    later_tokens = np.maximum(load.output_tokens - 1.0, 0.0)
    return np.asarray(prefills_outlast_decodes(load.in_flight, measured.ttft_s, measured.tpot_s, later_tokens))


def prefills_outlast_decodes(in_flight: Number, ttft: Number, tpot: Number, later_tokens: Number) -> Number:
    """Whether all prefills of requests that begin together take longer than an answer decodes, by TTFT and TPOT."""
    return (in_flight >= 2.0) & (ttft * 2.0 * in_flight / (in_flight + 1.0) > tpot * later_tokens)


def would_lockstep(work: Work, facts: Facts, p: dict[str, Array]) -> npt.NDArray[np.bool_]:
    """Loads that would run in lockstep on an engine of these parameters, if requests began together."""
    prefill = prefill_s(work, facts, p)
    step = step_s(work.in_flight / facts.decode_workers, work.decode_attention_s, facts, p)
    return np.asarray((work.in_flight >= 2.0) & (work.in_flight * prefill > work.later_tokens * step))


def refusals(measured: Measured, disaggregated: bool) -> list[tuple[int, str, str]]:
    """Row, reason and what is wrong, of the rows that are refused. A pool of prefills of its own knows no lockstep."""
    found: list[tuple[int, str, str]] = []
    if not disaggregated:
        load = measured.load
        found += [
            (
                int(row),
                "lockstep",
                f"{load.in_flight[row]:g} requests prefill together and then decode together: the prefills take longer "
                f"than {load.output_tokens[row]:g} decode steps; measure with more output tokens or fewer requests",
            )
            for row in np.flatnonzero(lockstep(measured))
        ]
    refused = {row for row, _, _ in found}
    found += [each for each in _contradictory(measured) if each[0] not in refused]
    return sorted(found)


def _contradictory(measured: Measured) -> list[tuple[int, str, str]]:
    """Runs of one load in two times: which of them is of the deployment nobody knows."""
    load = measured.load
    found: list[tuple[int, str, str]] = []
    keys = np.stack([load.in_flight, load.input_tokens, load.output_tokens])
    for row in range(len(measured)):
        same: npt.NDArray[np.bool_] = np.all(np.abs(keys / keys[:, row : row + 1] - 1.0) < 1e-3, axis=0)
        slowest, fastest = measured.latency_s[same].max(), measured.latency_s[same].min()
        if slowest > REPEATABLE_FACTOR * fastest:
            found.append((
                row,
                "contradicts_other_rows",
                f"runs of {load.in_flight[row]:g} requests in flight of one workload take {fastest:.3g} and "
                f"{slowest:.3g} s: they are not one deployment; tell them apart by what differed",
            ))  # fmt: skip
    return found


def out_of_order(measured: Measured) -> list[tuple[int, str, str]]:
    """Rows of pairs in which more work takes less time: two rows are enough.

    Of a row that contradicts several others it alone is refused, of two that contradict each other both are.
    """
    found: list[tuple[int, str, str]] = []
    against = _contradictions(measured)
    while against.any():
        degree = (against | against.T).sum(axis=0)
        worst = np.flatnonzero(degree == degree.max())
        for row in worst:
            other = int(np.flatnonzero(against[row] | against[:, row])[0])
            found.append((int(row), "contradicts_other_rows", _in_words(measured, int(row), other)))
        against[worst, :] = against[:, worst] = False
    return found


def _contradictions(measured: Measured) -> npt.NDArray[np.bool_]:
    """Whether each row (first axis) asks for no more than each other and takes longer all the same."""
    load = measured.load
    asks = np.stack([load.in_flight, load.input_tokens - load.cached_tokens, load.output_tokens])
    no_more = np.all(asks[:, :, None] <= asks[:, None, :] * (1.0 + 1e-3), axis=0)
    slower = measured.latency_s[:, None] > REPEATABLE_FACTOR * measured.latency_s[None, :]
    return np.asarray(no_more & slower)


def _in_words(measured: Measured, row: int, other: int) -> str:
    """What one row says and what another."""
    load, latency = measured.load, measured.latency_s

    def told(at: int) -> str:
        return (
            f"{load.in_flight[at]:g} requests in flight of {load.input_tokens[at]:,.0f} and "
            f"{load.output_tokens[at]:,.0f} tokens take {latency[at]:.3g} s"
        )

    return f"{told(row)}, {told(other)}: they are not of one deployment; tell them apart by what differed"


def off_the_rest(errors: Array, measured: Measured) -> list[tuple[int, str, str]]:
    """Of the errors of ``left_out_errors`` in latency: rows that all others contradict."""
    if len(errors) < 4:
        return []
    return [
        (
            int(row),
            "contradicts_other_rows",
            f"the other rows say {measured.latency_s[row] * np.exp(errors[row]):.3g} s at this load, the row "
            f"{measured.latency_s[row]:.3g} s",
        )
        for row in np.flatnonzero(np.abs(errors) > np.log(CONTRADICTS_FACTOR))
    ]
