"""The picture of the second opinion on the closed loop: each load's errors against the exact solution."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import vl_convert

FIGURE: Final = Path(__file__).parents[2] / ".figures" / "closed_loop.svg"
#: What is compared with the exact solution, its colour and its mark.
WAYS: Final = {
    "rule of the product": ("#0072B2", "circle"),
    "preset article, B/rho": ("#D55E00", "triangle-up"),
    "simulation": ("#777777", "cross"),
}

#: (way, steepness of the curve, error of R, error of X, the load in words)
Error = tuple[str, float, float, float, str]


def closed_loop_spec(errors: Iterable[Error]) -> dict[str, Any]:
    """Errors of R and of the throughput over how steeply R rises with the requests in flight, one panel each."""
    names = ("way", "steepness", "latency", "turns", "load")
    values = [dict(zip(names, error, strict=True)) for error in errors]
    panels = [_panel("latency", "error of the turn latency R"), _panel("turns", "error of the throughput X")]
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "background": "white",
        "padding": 12,
        "data": {"values": values},
        "title": {
            "text": "The closed loop against its exact solution",
            "subtitle": "Exact: product form of a load-dependent station. 2, 8 and 32 sessions a station. Band: 5 %.",
            "anchor": "start", "fontSize": 14, "subtitleFontSize": 11, "offset": 12,
        },
        "hconcat": panels,
    }  # fmt: skip


def draw_closed_loop(errors: Iterable[Error], path: Path = FIGURE) -> Path:
    """Writes the picture as SVG."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(vl_convert.vegalite_to_svg(closed_loop_spec(errors)), encoding="utf-8")
    return path


def _panel(figure: str, title: str) -> dict[str, Any]:
    y = {"field": figure, "type": "quantitative", "axis": {"title": title, "format": "+.0%"}}
    colours, shapes = zip(*WAYS.values(), strict=True)
    scale = {"domain": list(WAYS)}
    band = {
        "data": {"values": [{"low": -0.05, "high": 0.05}]},
        "mark": {"type": "rect", "color": "#0072B2", "opacity": 0.08},
        "encoding": {"y": {"field": "low", "type": "quantitative"}, "y2": {"field": "high"}},
    }
    points = {
        "mark": {"type": "point", "filled": True, "size": 60, "opacity": 0.8},
        "encoding": {
            "x": {"field": "steepness", "type": "quantitative",
                  "axis": {"title": "slope of R with requests in flight (0 flat, 1 saturated)", "tickCount": 6}},
            "y": y,
            "color": {"field": "way", "type": "nominal", "title": None,
                      "scale": scale | {"range": list(colours)}, "legend": {"orient": "bottom"}},
            "shape": {"field": "way", "type": "nominal", "title": None, "scale": scale | {"range": list(shapes)}},
        },
    }  # fmt: skip
    return {"width": 330, "height": 230, "layer": [band, points]}
