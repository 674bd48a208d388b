"""Rows of a frame with figures beside it, and what their configurations have in common."""

import numpy as np
import polars as pl
import pytest

from transforms.agent_points.rows.rows import Configurations, Rows

FRAME = pl.DataFrame({"name": list("abcd"), "tp": [1, 2, None, 4], "batch": [4.0, 3.0, 2.0, 1.0]})
EACH = Rows(pl.DataFrame({"_price": [10.0, 20.0], "tp": [7, 7]}))
OF_ROW = np.array([0, 1, 1, 0])


def rows(places: list[int] | None = None) -> Rows:
    of_row = OF_ROW if places is None else OF_ROW[places]
    at = None if places is None else np.array(places)
    return Rows(FRAME, places=at, configurations=Configurations(EACH, of_row))


def test_columns_are_the_frames_then_the_configurations() -> None:
    assert rows()["tp"].tolist() == pytest.approx([1, 2, np.nan, 4], nan_ok=True)
    assert rows()["_price"].tolist() == [10.0, 20.0, 20.0, 10.0]
    with pytest.raises(pl.exceptions.ColumnNotFoundError):
        rows()["unknown"]


def test_rows_in_another_order() -> None:
    turned = rows([3, 0, 2])
    assert len(turned) == 3
    assert turned["batch"].tolist() == [1.0, 4.0, 2.0]
    assert turned["_price"].tolist() == [10.0, 10.0, 20.0]
    assert turned.frame["name"].to_list() == ["d", "a", "c"]
    assert turned.select(["name"]).to_series().to_list() == ["d", "a", "c"]


def test_taking_again_and_again() -> None:
    """Figures, columns and those of configurations."""
    with_all = rows([3, 0, 2]).with_figures(figure=np.array([1.0, 2.0, 3.0]), one=5.0)
    taken = with_all.take(np.array([True, False, True])).take(np.array([1]))
    assert [taken[name] for name in ("figure", "one", "batch", "_price")] == [3.0, 5.0, 2.0, 20.0]
    assert taken.to_frame().to_dicts() == [{"name": "c", "tp": None, "batch": 2.0, "figure": 3.0, "one": 5.0}]


def test_figures_hide_columns_and_can_be_left_out() -> None:
    changed = rows().with_figures(batch=np.array([1.0, np.nan, 3.0, 4.0]), other=1.0)
    assert changed.to_frame()["batch"].to_list() == [1.0, None, 3.0, 4.0]
    assert changed.without_figures(["other"]).to_frame().columns == ["name", "tp", "batch"]
    assert changed.without_figures(["batch"])["batch"].tolist() == [4.0, 3.0, 2.0, 1.0]


def test_what_configurations_have_in_common_is_told_once_where_they_are_fewer() -> None:
    of = rows().configurations
    assert of.rows is EACH
    assert of.to_rows(of.rows["_price"] * 2).tolist() == [20.0, 40.0, 40.0, 20.0]
    assert of.to_rows(3.0) == 3.0
    few = rows().take(np.array([1, 2]))
    assert few.configurations.rows is few
    assert few.configurations.to_rows(few["_price"]).tolist() == [20.0, 20.0]
    alone = Rows(FRAME)
    assert alone.configurations.rows is alone
