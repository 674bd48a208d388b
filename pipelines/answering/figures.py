"""Figures of frontiers: a Vega-Lite specification, and the picture or page made of it. Nothing is fetched."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from pipelines.terminal import terminal_text
from schemas.errors import UserError
from transforms.agent_points.judgement.feasibility import WALL_REASONS

Kind = Literal["png", "svg", "html"]
Point = Mapping[str, Any]

WIDTH: Final = 720
HEIGHT: Final = 420
PNG_SCALE: Final = 2.0
#: Told apart by who sees few colours too (Okabe and Ito 2008); black, their eighth, is the text's.
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A6D00")
ROOFLINE: Final = ", roofline"
ON_FRONTIER: Final = "on the frontier"
BELOW: Final = "below it"
BEYOND: Final = "beyond the KV wall"
X_TITLE: Final = "turn latency, mean over the turns (s)"
Y_TITLE: Final = "tasks an hour per GPU (1/h/GPU)"

# thousands of marks: their descriptions would be most of the file
_POINT: Final = {"type": "point", "filled": True, "aria": False}
_LINE: Final = {"type": "line", "interpolate": "step-after", "strokeWidth": 2}
_GREY: Final = "#888"
_LOOK: Final = {
    "background": "white",
    "font": "Helvetica, Arial, sans-serif",
    "title": {"anchor": "start", "fontSize": 16, "subtitleFontSize": 12, "subtitleColor": "#555", "offset": 14},
    "axis": {"labelFontSize": 12, "titleFontSize": 13, "titlePadding": 10, "gridColor": "#e6e6e6", "domainColor": _GREY,
             "tickColor": _GREY},
    "legend": {"labelFontSize": 12, "titleFontSize": 12, "symbolStrokeWidth": 2},
    "view": {"stroke": None},
}  # fmt: skip
_TOOLTIP: Final[tuple[tuple[str, str, dict[str, str]], ...]] = (
    ("hardware", "hardware", {}),
    ("weights", "weights", {}),
    ("shape", "replica", {}),
    ("backend", "engine", {}),
    ("by", "carried by", {}),
    ("sessions", "sessions", {"format": ",.4~r"}),
    ("max_sessions", "sessions that fit", {"format": ",.4~r"}),
    ("turn_latency_s", "turn latency, s", {"format": ",.4~r"}),
    ("tasks_per_hour_per_gpu", "tasks/h/GPU", {"format": ",.4~r"}),
    ("binding_limit", "limit", {}),
)


def frontier_spec(points: Iterable[Point], model: str, scenario: str) -> dict[str, Any]:
    """Turn latency against tasks an hour per GPU, a colour for each hardware, dashes for each weight format.

    ``points`` are rows of ``agent_points`` with ``shape``, the replica in words. Infeasible ones are drawn, lightly,
    where the KV wall is what stands against them; the others are left out. Raises ``UserError`` where there are more
    series than colours.
    """
    rows = [row for row in map(_row, points) if row is not None]
    series = list(dict.fromkeys(row["series"] for row in rows))
    if len(series) > len(COLOURS):
        raise UserError(
            f"A figure tells at most {len(COLOURS)} GPUs apart by colour, and these are {len(series)}: give fewer "
            "--hardware, or leave --png, --svg and --html out for the table alone."
        )
    formats = list(dict.fromkeys(row["weights"] for row in rows))
    x = {"field": "turn_latency_s", "type": "quantitative", "title": X_TITLE, "scale": {"type": "log", "nice": False},
         "axis": {"tickCount": 8, "format": "~g"}}  # fmt: skip
    y = {"field": "tasks_per_hour_per_gpu", "type": "quantitative", "title": Y_TITLE, "scale": {"zero": True},
         "axis": {"format": ",~f"}}  # fmt: skip
    colour = {"field": "series", "type": "nominal", "title": "hardware", "legend": {"symbolOpacity": 1}, "scale": {
        "domain": series, "range": list(COLOURS[: len(series)])}}  # fmt: skip
    line: dict[str, Any] = {"x": x, "y": y, "color": colour, "detail": {"field": "weights"}, "order": {
        "field": "turn_latency_s", "type": "quantitative"}}  # fmt: skip
    if len(formats) > 1:
        line["strokeDash"] = {"field": "weights", "type": "nominal", "title": "weights", "sort": formats}
    kinds = [ON_FRONTIER, BELOW, BEYOND]
    marks = {
        "x": x, "y": y, "color": colour,
        "shape": _by_kind(kinds, ["circle", "circle", "cross"]),
        "opacity": _by_kind(kinds, [1.0, 0.3, 0.18]),
        "size": _by_kind(kinds, [34, 14, 20]),
        "tooltip": [{"field": name, "title": text, **form} for name, text, form in _TOOLTIP],
    }  # fmt: skip
    light, best = ({"filter": f"datum.kind {is_} '{ON_FRONTIER}'"} for is_ in ("!=", "=="))
    title = {"text": f"{model}, {scenario}", "subtitle": _subtitle(series, formats)}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "title": title,
        "width": WIDTH,
        "height": HEIGHT,
        "padding": 12,
        "data": {"values": rows},
        "layer": [
            # light points first, so that the frontier lies above them
            {"transform": [light], "mark": _POINT, "encoding": marks},
            {"transform": [best], "mark": _LINE, "encoding": line},
            {"transform": [best], "mark": _POINT, "encoding": marks},
        ],
        "config": _LOOK,
    }


def write_figure(spec: Mapping[str, Any], kind: Kind, path: Path) -> None:
    """The figure as a file; a page holds all its scripts. Raises ``UserError`` where it cannot be written."""
    import vl_convert

    given = {name: _drawable(value) for name, value in spec.items()}
    if kind == "png":
        content = vl_convert.vegalite_to_png(given, scale=PNG_SCALE, allowed_base_urls=[])
    elif kind == "svg":
        content = vl_convert.vegalite_to_svg(given, allowed_base_urls=[]).encode()
    else:
        content = _inert(vl_convert.vegalite_to_html(given, bundle=True), given).encode()
    try:
        path.write_bytes(content)
    except OSError as error:
        raise UserError(f"--{kind} {path} cannot be written: {error.strerror or error}.") from error


def _drawable(value: Any) -> Any:
    """The value with its texts' control characters escaped: a picture is XML, which has none."""
    if isinstance(value, str):
        return terminal_text(value)
    if isinstance(value, Mapping):
        return {name: _drawable(each) for name, each in value.items()}
    return [_drawable(each) for each in value] if isinstance(value, list | tuple) else value


def _inert(page: str, spec: Mapping[str, Any]) -> str:
    """The page with its specification written so that a name in it ends no script: HTML finds no `<` there."""
    text = json.dumps(spec, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    page, written = re.subn(r"(?m)^( *const spec = ).*;$", lambda line: f"{line[1]}{text};", page)
    if written != 1:
        raise RuntimeError("vl-convert writes its page in another way: the specification is not where it was")
    return page


def _row(point: Point) -> dict[str, Any] | None:
    """What the figure keeps of a point; None where it is not drawn."""
    if point["on_frontier"]:
        kind = ON_FRONTIER
    elif point["feasible"]:
        kind = BELOW
    elif point["infeasible_reason"] in WALL_REASONS:
        kind = BEYOND
    else:
        return None
    roofline = point["transfer_method"] == "roofline"
    return {
        "kind": kind,
        "series": f"{point['hardware']}{ROOFLINE}" if roofline else point["hardware"],
        "weights": point["weight_dtype"],
        "by": point["transfer_method"],
        "turn_latency_s": point["turn_latency_ms"] / 1e3,
        **{
            name: point[name]
            for name in (
                "hardware", "tasks_per_hour_per_gpu", "sessions", "max_sessions", "shape", "backend", "binding_limit"
            )
        },
    }  # fmt: skip


def _subtitle(series: Sequence[str], formats: Sequence[str]) -> list[str]:
    weights = "each format of the weights" if len(formats) > 1 else f"{formats[0]} weights"
    lines = [f"Lines, of {weights}: no replica and load that memory can hold is as quick and yields more."]
    if any(name.endswith(ROOFLINE) for name in series):
        lines.append("A roofline says what peak rates allow: do not compare it with the points of a table.")
    return lines


def _by_kind(kinds: Sequence[str], values: Sequence[object]) -> dict[str, Any]:
    return {
        "field": "kind",
        "type": "nominal",
        "title": "points",
        "sort": kinds,
        "scale": {"domain": kinds, "range": values},
    }
