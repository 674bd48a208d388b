"""The picture shows the errors that the bench has found, in its axes and units."""

from pathlib import Path

import numpy as np

from tests.bench.bench_closed_loop import Row, errors
from tests.bench.closed_loop_figure import WAYS, closed_loop_spec, draw_closed_loop
from tests.second_opinion.curve import Curve
from tests.second_opinion.product_form import Figures


def row() -> Row:
    """Exact R of 2 s; the rule says 2.1, the article 1.5, the simulation 2.02."""
    curve = Curve("a curve", np.array([1.0, 2.0]), np.array([1.0, 2.0]))
    return Row(
        curve, "code-agent", 8, 3.0, 0.4, Figures(4.0, 2.0), Figures(3.9, 2.1), Figures(4.4, 1.5), Figures(4.0, 2.02),
        0.01,
    )  # fmt: skip


def test_errors_are_relative_to_the_exact_figures() -> None:
    found = [(way, round(latency, 12), round(turns, 12)) for way, _, latency, turns, _ in errors([row()])]
    rule, article, simulation = WAYS
    assert found == [(rule, 0.05, -0.025), (article, -0.25, 0.1), (simulation, 0.01, 0.0)]


def test_the_picture_has_every_error_and_says_what_its_axes_are() -> None:
    given = list(errors([row()]))
    spec = closed_loop_spec(given)
    assert [(value["way"], value["latency"]) for value in spec["data"]["values"]] == [(e[0], e[2]) for e in given]
    titles = [panel["layer"][1]["encoding"]["y"]["axis"]["title"] for panel in spec["hconcat"]]
    assert titles == ["error of the turn latency R", "error of the throughput X"]


def test_it_is_drawn(tmp_path: Path) -> None:
    path = draw_closed_loop(errors([row()]), tmp_path / "figures" / "loop.svg")
    text = path.read_text()
    assert text.startswith("<svg")
    assert all(way in text for way in WAYS)
