"""Rows that no engine is fitted to, each with the reason: lockstep, and rows that contradict each other."""

from typing import Final

import numpy as np
import numpy.typing as npt

from transforms.calibration.facts import Facts
from transforms.calibration.fit import Measured
from transforms.calibration.parameters import Array
from transforms.calibration.step_model import Work, prefill_s, step_s
from transforms.numbers import Number

#: Two runs of one load that differ by more than this factor in latency are not runs of one deployment.
SAME_LOAD_FACTOR: Final = 1.5
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
    load = measured.load
    found: list[tuple[int, str, str]] = []
    keys = np.stack([load.in_flight, load.input_tokens, load.output_tokens])
    for row in range(len(measured)):
        same: npt.NDArray[np.bool_] = np.all(np.abs(keys / keys[:, row : row + 1] - 1.0) < 1e-3, axis=0)
        slowest, fastest = measured.latency_s[same].max(), measured.latency_s[same].min()
        if slowest > SAME_LOAD_FACTOR * fastest:
            found.append((
                row,
                "contradicts_other_rows",
                f"runs of {load.in_flight[row]:g} requests in flight of one workload take {fastest:.3g} and "
                f"{slowest:.3g} s: they are not one deployment; tell them apart by what differed",
            ))  # fmt: skip
    return found


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
