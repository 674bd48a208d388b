"""The pictures of the measured agent runs, drawn from Vega-Lite specifications without a browser."""

from pathlib import Path
from typing import Any, Final

import polars as pl
import vl_convert

FIGURES: Final = Path(__file__).parents[2] / ".figures"
SOURCE: Final = (
    "Points: InferenceX, DeepSeek-R1 FP4 on B200, vLLM 0.19.1; hollow where a run stalled, ended early or lost turns."
)
BAND: Final = "Band: decode overheads grow with the context (line) or stay (other edge)."
WALL: Final = "Dotted rule: sessions whose turns in service fill the GPUs' memory (Eq. 5)."
_OFFLOAD: Final = {"off": "#1f5fa8", "on": "#d1701f"}
_LINES: Final = {"predicted": [1, 0], "at the measured latency": [4, 3]}


def draw_speed(runs: pl.DataFrame, folder: Path = FIGURES) -> list[Path]:
    """Throughput and latency over sessions, measured and predicted, one panel a figure and tp."""
    figures = (("throughput", "output tokens/s per GPU"), ("latency_s", "mean turn latency, s"))
    panels = [
        {"hconcat": [_speed_panel(runs.filter(pl.col("tp") == tp), figure, axis, f"TP{tp}") for tp in (4, 8)]}
        for figure, axis in figures
    ]
    title = _title(
        "Agents on measured hardware: predicted from standard rows, and measured", [f"{BAND} {WALL}", SOURCE]
    )
    return _write(folder / "agentic", {"title": title, "vconcat": panels})


def draw_hits(runs: pl.DataFrame, folder: Path = FIGURES) -> list[Path]:
    """Cache hit rate over sessions, one panel a deployment."""
    keys = [(4, "off"), (4, "on"), (8, "off"), (8, "on")]
    panels = [_hits_panel(runs.filter(pl.col("tp") == tp, pl.col("offload") == mode), f"TP{tp}, offload {mode}")
              for tp, mode in keys]  # fmt: skip
    title = _title("The cache cliff: hit rate by sessions, predicted and measured", [WALL, SOURCE])
    rows = [{"hconcat": panels[:2]}, {"hconcat": panels[2:]}]
    return _write(folder / "agentic_hits", {"title": title, "vconcat": rows})


def _speed_panel(runs: pl.DataFrame, figure: str, axis: str, title: str) -> dict[str, Any]:
    values = runs.select("sessions", "offload", "whole", measured=f"measured_{figure}", scaled=f"scaled_{figure}",
                         added=f"added_{figure}").to_dicts()  # fmt: skip
    colour = {
        "field": "offload", "type": "nominal", "title": "KV offload",
        "scale": {"domain": list(_OFFLOAD), "range": list(_OFFLOAD.values())}, "legend": {"symbolOpacity": 1},
    }  # fmt: skip
    log = {"type": "log"}
    y = {"type": "quantitative", "scale": log, "axis": {"title": axis, "tickCount": 5, "format": "~g"}}
    return {
        "title": title, "width": 330, "height": 210, "data": {"values": values},
        "encoding": {"x": _sessions(), "color": colour},
        "layer": [
            _wall(runs),
            {"mark": {"type": "area", "opacity": 0.15},
             "encoding": {"y": {**y, "field": "scaled"}, "y2": {"field": "added"}}},
            {"mark": {"type": "line", "strokeWidth": 2}, "encoding": {"y": {**y, "field": "scaled"}}},
            *_points(y, "measured"),
        ],
    }  # fmt: skip


def _hits_panel(runs: pl.DataFrame, title: str) -> dict[str, Any]:
    measured = runs.select("sessions", "whole", rate="measured_hit_rate").to_dicts()
    lines = [
        {"sessions": sessions, "rate": rate, "line": name}
        for name, column in zip(_LINES, ("scaled_hit_rate", "hit_rate_at_latency"), strict=True)
        for sessions, rate in runs.select("sessions", column).iter_rows()
    ]
    y = {"field": "rate", "type": "quantitative", "scale": {"domain": [0, 1]},
         "axis": {"title": "hit rate (share of prompt tokens)", "format": ".1f"}}  # fmt: skip
    dash = {"field": "line", "type": "nominal", "title": "model", "sort": list(_LINES),
            "scale": {"domain": list(_LINES), "range": list(_LINES.values())}}  # fmt: skip
    line = {
        "data": {"values": lines}, "mark": {"type": "line", "strokeWidth": 2, "color": "#444444"},
        "encoding": {"x": _sessions(), "y": y, "strokeDash": dash},
    }  # fmt: skip
    points = [{**layer, "data": {"values": measured}, "mark": {**layer["mark"], "color": _OFFLOAD["off"]}}
              for layer in _points(y, "rate", x=_sessions())]  # fmt: skip
    return {"title": title, "width": 330, "height": 170, "layer": [_wall(runs), line, *points]}


def _sessions() -> dict[str, Any]:
    ticks = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    return {"field": "sessions", "type": "quantitative", "scale": {"type": "log", "domain": [1, 512]},
            "axis": {"title": "concurrent sessions", "values": ticks, "grid": False}}  # fmt: skip


def _wall(runs: pl.DataFrame) -> dict[str, Any]:
    """Where the turns in service fill the GPUs' memory (Eq. 5), at the mean context of the runs."""
    at = {"sessions": float(runs["wall"].to_numpy().mean())}
    return {"data": {"values": [at]}, "mark": {"type": "rule", "color": "#888888", "strokeDash": [2, 2]},
            "encoding": {"x": _sessions(), "color": {"value": "#888888"}}}  # fmt: skip


def _points(y: dict[str, Any], field: str, **encoding: Any) -> list[dict[str, Any]]:
    """Filled for whole runs, hollow for the others."""
    return [
        {"transform": [{"filter": f"datum.whole === {'true' if whole else 'false'}"}],
         "mark": {"type": "point", "filled": whole, "size": 55, "opacity": 1},
         "encoding": {**encoding, "y": {**y, "field": field}}}
        for whole in (True, False)
    ]  # fmt: skip


def _title(text: str, below: list[str]) -> dict[str, Any]:
    return {"text": text, "subtitle": below, "anchor": "start", "fontSize": 14, "subtitleFontSize": 11, "offset": 12}


def _write(path: Path, spec: dict[str, Any]) -> list[Path]:
    whole = {"$schema": "https://vega.github.io/schema/vega-lite/v5.json", "background": "white", "padding": 12, **spec}
    path.parent.mkdir(exist_ok=True)
    svg, png = path.with_suffix(".svg"), path.with_suffix(".png")
    svg.write_text(vl_convert.vegalite_to_svg(whole), encoding="utf-8")
    png.write_bytes(vl_convert.vegalite_to_png(whole, scale=1.5))
    return [svg, png]
