"""The Pareto frontier against brute force: ties, duplicates, order, groups, and who takes part."""

from collections.abc import Sequence
from random import Random

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.frontier import GROUP, frontier_2d, frontier_3d, mark_frontiers

# Few distinct values, so that ties and duplicates are common; and any floats.
COORDINATE = st.integers(0, 5).map(float) | st.floats(-1e9, 1e9)
POINTS_2D = st.lists(st.tuples(COORDINATE, COORDINATE), max_size=40)
POINTS_3D = st.lists(st.tuples(COORDINATE, COORDINATE, COORDINATE), max_size=40)
Point = tuple[float, ...]


def beats(one: Point, other: Point) -> bool:
    """Costs down, the second coordinate is a gain: no worse anywhere, better somewhere."""
    signed = [(-a, -b) if axis == 1 else (a, b) for axis, (a, b) in enumerate(zip(one, other, strict=True))]
    return all(a <= b for a, b in signed) and any(a < b for a, b in signed)


def brute_force(points: list[Point]) -> list[bool]:
    return [not any(beats(other, point) for other in points) for point in points]


def front(points: list[Point], axes: int) -> list[bool]:
    columns = [np.array([point[axis] for point in points], dtype=np.float64) for axis in range(axes)]
    result: list[bool] = (frontier_2d(*columns) if axes == 2 else frontier_3d(*columns)).tolist()
    return result


@given(points=POINTS_2D)
def test_two_axes_are_brute_force(points: list[Point]) -> None:
    assert front(points, 2) == brute_force(points)


@given(points=POINTS_3D)
def test_three_axes_are_brute_force(points: list[Point]) -> None:
    assert front(points, 3) == brute_force(points)


@pytest.mark.parametrize("axes", [2, 3])
@given(points=POINTS_3D, random=st.randoms())
def test_order_does_not_matter_and_a_front_is_its_own_front(axes: int, points: list[Point], random: Random) -> None:
    points = [point[:axes] for point in points]
    order = list(range(len(points)))
    random.shuffle(order)
    marks = front(points, axes)
    assert front([points[i] for i in order], axes) == [marks[i] for i in order]
    kept = [point for point, mark in zip(points, marks, strict=True) if mark]
    assert front(kept, axes) == [True] * len(kept)
    # a point that stands twice stands or falls together
    assert front(points + points, axes) == marks + marks


@given(points=POINTS_3D)
def test_a_third_axis_that_is_the_same_for_all_changes_nothing(points: list[Point]) -> None:
    flat, deep = front(points, 2), front([(cost, gain, 0.0) for cost, gain, _ in points], 3)
    assert deep == flat


def test_ties_by_hand() -> None:
    # A tie on one axis and a loss on the other is dominated; equal coordinates keep every configuration.
    points: list[Point] = [(1, 5), (1, 4), (2, 5), (2, 6), (2, 6), (3, 6), (0, 1)]
    assert front(points, 2) == [True, False, False, True, True, False, True]


def frame(points: list[Point], **columns: Sequence[object]) -> pl.DataFrame:
    base = {name: ["one"] * len(points) for name in GROUP}
    return pl.DataFrame(
        {
            **base,
            "turn_latency_ms": [point[0] for point in points],
            "turns_per_s_per_gpu": [point[1] for point in points],
            "kv_bytes_per_gpu": [point[2] for point in points],
            "turns_per_s_per_cluster_gpu": [None] * len(points),
            "unmeasured_load": [None] * len(points),
            "feasible": [True] * len(points),
            **columns,
        },
        schema_overrides={"turns_per_s_per_cluster_gpu": pl.Float64, "unmeasured_load": pl.String},
        strict=False,
    )


def test_loads_beyond_those_measured_take_no_part() -> None:
    points: list[Point] = [(1, 9, 1), (2, 12, 2), (3, 20, 3)]
    marked = mark_frontiers(frame(points, unmeasured_load=[None, "between", "beyond"]))
    assert marked["on_frontier"].to_list() == [True, True, False]
    assert marked["on_frontier_3d"].to_list() == [True, True, False]


class TestGroups:
    @pytest.mark.parametrize("column", GROUP)
    def test_points_compete_within_a_group_only(self, column: str) -> None:
        marked = mark_frontiers(frame([(1, 9, 1), (2, 5, 2)], **{column: ["one", "two"]}))
        assert marked["on_frontier"].to_list() == [True, True]
        assert marked["on_frontier_3d"].to_list() == [True, True]
        assert mark_frontiers(frame([(1, 9, 1), (2, 5, 2)]))["on_frontier"].to_list() == [True, False]

    def test_only_finite_feasible_rows_take_part(self) -> None:
        points: list[Point] = [
            (1, 9, 1),
            (2, 5, 2),
            (0.5, np.inf, 1),
            (np.nan, 99, 1),
            (3, np.nan, 1),
            (0.1, 99, np.inf),
        ]
        marked = mark_frontiers(frame(points, feasible=[False, *[True] * 5]))
        assert marked["on_frontier"].to_list() == [False, True, False, False, False, False]
        assert marked["on_frontier_3d"].to_list() == [False, True, False, False, False, False]

    def test_the_cluster_view_replaces_the_throughput_axis(self) -> None:
        marked = mark_frontiers(frame([(1, 1, 1), (2, 9, 2)], turns_per_s_per_cluster_gpu=[1.0, 0.5]))
        assert marked["on_frontier"].to_list() == [True, False]

    def test_the_third_axis_keeps_what_needs_less_memory(self) -> None:
        marked = mark_frontiers(frame([(1, 9, 8), (2, 5, 2), (3, 5, 2)]))
        assert marked["on_frontier"].to_list() == [True, False, False]
        assert marked["on_frontier_3d"].to_list() == [True, True, False]

    def test_no_rows(self) -> None:
        marked = mark_frontiers(frame([(1, 9, 8)]).clear())
        assert marked.height == 0
        assert {"on_frontier", "on_frontier_3d"} <= set(marked.columns)
