"""Percentiles of rows: of blocks, of a frame's columns, of one row."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pandas

from schemas.arrays import Array
from tests.bench.references.figures import Figures
from transforms.spread.forms import Nodes
from transforms.tails.nodes import TailNodes
from transforms.tails.replica import LEAST_SHARE, SHARES, aggregated_tails
from transforms.tails.waits import over_turns

#: Cells of a direction's unit, as the percentiles of the mapping have them.
_CELLS: Final = 12
_STEPS: Final = 2 * _CELLS + 1


class FusedSpread:
    """Percentiles of blocks of rows from a scenario's nodes; what a cell is multiplied by is looked up once."""

    def __init__(self, nodes: TailNodes, turns: float) -> None:
        self._nodes, self._turns = nodes, turns
        self._tables: dict[int, tuple[Array, Array]] = {}

    def add(self, y: Figures, slopes: tuple[Array, Array], ranks: Array, decode_ms: Array) -> None:
        """The percentiles of rows with session and turn figures."""
        nodes, tpot = self._nodes, y["tpot_ms"]
        ms_a_token, ms_a_flop = slopes
        turn = y["turn_latency_ms"], y["activity_fraction"]
        tails = aggregated_tails(slopes, tpot, y["sessions"] / ranks, turn, decode_ms, nodes)
        wait = tails.wait
        means = nodes.turns.means
        rest = y["turn_latency_ms"] - ms_a_token * means[1]
        rest -= ms_a_flop * means[2]
        rest -= tpot * means[3]
        forms = [rest, ms_a_token, ms_a_flop, tpot]
        of_turns = [y[f"turn_latency_{share}_ms"] for share in SHARES]
        self._put(of_turns, nodes.turns, [*forms, *wait], tuple(SHARES.values()))
        for values in of_turns:
            np.maximum(values, LEAST_SHARE * y["turn_latency_ms"], out=values)
        for name, first, whole in zip(SHARES, tails.ttft, of_turns, strict=True):
            np.minimum(first, whole, out=y[f"ttft_{name}_ms"])
        tasks = [y[f"task_time_{share}_s"] for share in SHARES]
        in_a_task = over_turns(*wait, self._turns)
        self._put(tasks, nodes.tasks, [*forms, np.array(1e3), *in_a_task], tuple(SHARES.values()))
        for values in tasks:
            values *= 1e-3
        speeds = [y[f"e2e_tokens_per_s_per_user_{share}"] for share in SHARES]
        self._put(speeds, nodes.per_token, [*forms, *wait], tuple(SHARES.values()))
        for values in speeds:
            np.divide(1e3, values, out=values)
        of_tokens = [y[f"tpot_{share}_ms"] for share in SHARES]
        slowed = [np.minimum(part / means[3], tpot) for part in tails.decode_wait]
        self._put(of_tokens, nodes.output_token, [tpot, *slowed], tuple(SHARES.values()))
        least = np.maximum(tails.step, LEAST_SHARE * tpot)
        for values in of_tokens:
            np.maximum(values, least, out=values)

    def _put(self, out: list[Array], nodes: Nodes, forms: list[Array], shares: tuple[float, ...]) -> None:
        varying = np.flatnonzero(nodes.deviations).tolist()
        cells = self._cells(nodes, [forms[q] * nodes.deviations[q] for q in varying], shares)
        base: Array | float = 0.0
        for quantity, form in enumerate(forms):
            if quantity not in varying:
                base = base + form * nodes.means[quantity]
        for number, values in enumerate(out):
            values[:] = base
            for quantity in varying:
                values += forms[quantity] * cells(quantity, number)
            if number:
                np.maximum(values, out[number - 1], out=values)

    def _cells(self, nodes: Nodes, amounts: list[Array], shares: tuple[float, ...]) -> Callable[[int, int], Array]:
        """What rows of these directions are multiplied by, for a quantity and a share."""
        if not amounts:
            raise ValueError("nothing varies in this scenario")
        total = np.abs(amounts[0])
        for amount in amounts[1:]:
            total += np.abs(amount)
        np.divide(_CELLS, total, out=total)
        key = np.zeros(len(total), np.int64)
        for amount in reversed(amounts):
            key *= _STEPS
            step = amount * total
            key += np.rint(step, out=step).astype(np.int64)
            key += _CELLS
        taken = np.unique(key) if (key != key[0]).any() else key[:1]
        factors = [nodes.factors(number, shares) for number in taken.tolist()]
        if len(taken) == 1:
            return lambda quantity, share: factors[0][quantity, share]
        table, place = np.stack(factors), np.searchsorted(taken, key)
        return lambda quantity, share: table[place, quantity, share]


def spread_of_columns(nodes: Nodes, forms: list[Any], shares: tuple[float, ...]) -> list[Any]:
    """Percentiles of the forms of a frame's rows, cell by cell."""
    steps = _steps_of([form.abs() for form in forms], forms, nodes)
    key = sum((step.round() + _CELLS) * _STEPS**place for place, step in enumerate(steps))
    frame = pandas.concat(forms, axis=1, keys=range(len(forms)))
    parts = []
    for cell, rows in frame.groupby(key):
        parts.append(pandas.DataFrame(rows.to_numpy() @ nodes.factors(int(cell), shares), index=rows.index))
    found = pandas.concat(parts).sort_index().cummax(axis=1)
    return [found[place] for place in found]


def spread_of_point(nodes: Nodes, forms: list[float], shares: tuple[float, ...]) -> list[float]:
    steps = _steps_of([abs(form) for form in forms], forms, nodes)
    key = sum((round(step) + _CELLS) * _STEPS**place for place, step in enumerate(steps))
    factors = _factors_of_cell(nodes, key, shares)
    found = [sum(form * factor for form, factor in zip(forms, of_share, strict=True)) for of_share in factors]
    return [max(found[: place + 1]) for place in range(len(found))]


_OF_CELL: dict[tuple[int, int, tuple[float, ...]], list[list[float]]] = {}


def _factors_of_cell(nodes: Nodes, key: int, shares: tuple[float, ...]) -> list[list[float]]:
    if (id(nodes), key, shares) not in _OF_CELL:
        _OF_CELL[id(nodes), key, shares] = nodes.factors(key, shares).T.tolist()
    return _OF_CELL[id(nodes), key, shares]


def _steps_of(sizes: list[Any], forms: list[Any], nodes: Nodes) -> list[Any]:
    """Where in a cell's units the direction of forms points, in each quantity that varies."""
    deviations = nodes.deviations
    varying = [quantity for quantity in range(len(forms)) if deviations[quantity] > 0]
    total = sum(sizes[quantity] * deviations[quantity] for quantity in varying)
    return [forms[quantity] * deviations[quantity] * _CELLS / total for quantity in varying]


def tails_of_columns(columns: list[Any], nodes: TailNodes, turns: float) -> tuple[list[Any], ...]:
    """Of ms a token and a FLOP, TPOT, sessions at a rank, latency, rho and decode share, as columns or as numbers: the
    wait of a turn, of a task, of an output token with the least that it takes, and TTFT at each share."""
    index = getattr(columns[0], "index", None)
    per_token, per_flop, tpot, sessions, latency, rho, decode = (np.asarray(each, dtype=float) for each in columns)
    tails = aggregated_tails((per_token, per_flop), tpot, sessions, (latency, rho), decode, nodes)
    of_a_token = [np.minimum(part / nodes.means[3], tpot) for part in tails.decode_wait]
    of_a_token.append(np.maximum(tails.step, LEAST_SHARE * tpot))

    def like(values: Any) -> Any:
        return float(values) if index is None else pandas.Series(np.asarray(values), index=index)

    each = (tails.wait, over_turns(*tails.wait, turns), of_a_token, tails.ttft)
    return tuple([like(values) for values in found] for found in each)
