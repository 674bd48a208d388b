"""Measured agent runs beside their prediction, as a Vega-Lite figure: throughput and turn latency over sessions."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

WIDTH: Final = 420
HEIGHT: Final = 260
_PREDICTED: Final = "predicted, with its 80 % band"
_MEASURED: Final = {True: "measured", False: "measured, not whole"}


def figure_of_runs(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The figure of what ``evaluate --runs`` found, a row of panels a deployment; dotted where memory is full."""
    names = list(dict.fromkeys(record["deployment"] for record in records))
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "background": "white",
        "padding": 12,
        "title": {
            "text": "Measured agent runs and their prediction", "anchor": "start",
            "subtitle": ["Dotted rule: sessions whose turns fill the memory. Pilots calibrated the engine."],
        },
        "vconcat": [_of_deployment([each for each in records if each["deployment"] == name]) for name in names],
        "config": {"view": {"stroke": None}},
    }  # fmt: skip


def _of_deployment(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    rows = [row for record in records for row in _rows(record)]
    wall = sum(record["memory_full_at"] for record in records) / len(records)
    return {
        "title": {"text": records[0]["deployment"], "anchor": "start", "fontSize": 12},
        "hconcat": [
            _panel(rows, wall, "throughput", "output tokens/s per GPU"),
            _panel(rows, wall, "latency", "mean turn latency, s"),
        ],
    }


def _rows(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row a line or point of a run."""
    named = {"sessions": record["sessions"], "offload": record["offload_mode"] or "off"}
    predicted, measured = record["predicted"], record["measured"]
    kind = "pilot" if record["is_pilot"] else _MEASURED[record["is_whole"]]
    return [
        named | {
            "kind": _PREDICTED, "throughput": predicted["output_tokens_per_s_per_gpu"],
            "latency": predicted["turn_latency_s"], "low": predicted["turn_latency_low_s"],
            "high": predicted["turn_latency_high_s"],
        },
        named | {
            "kind": kind, "throughput": measured["output_tokens_per_s_per_gpu"], "latency": measured["turn_latency_s"],
        },
    ]  # fmt: skip


def _panel(rows: list[dict[str, Any]], wall: float, figure: str, axis: str) -> dict[str, Any]:
    log = {"type": "log"}
    x = {"field": "sessions", "type": "quantitative", "scale": log, "axis": {"title": "sessions", "grid": False}}
    y = {"type": "quantitative", "scale": log, "axis": {"title": axis, "tickCount": 5, "format": "~g"}}
    colour = {"field": "offload", "type": "nominal", "title": "KV offload"}
    shapes = {"field": "kind", "type": "nominal", "title": None,
              "scale": {"domain": [*_MEASURED.values(), "pilot"], "range": ["circle", "cross", "diamond"]}}  # fmt: skip
    lines = {"filter": f"datum.kind === '{_PREDICTED}'"}
    points = {"filter": f"datum.kind !== '{_PREDICTED}'"}
    band = {"transform": [lines], "mark": {"type": "area", "opacity": 0.15},
            "encoding": {"x": x, "color": colour, "y": {**y, "field": "low"}, "y2": {"field": "high"}}}  # fmt: skip
    return {
        "width": WIDTH, "height": HEIGHT, "data": {"values": rows},
        "layer": [
            {"data": {"values": [{"sessions": wall}]}, "encoding": {"x": x},
             "mark": {"type": "rule", "color": "#888888", "strokeDash": [2, 2]}},
            *([band] if figure == "latency" else []),
            {"transform": [lines], "mark": "line", "encoding": {"x": x, "color": colour, "y": {**y, "field": figure}}},
            {"transform": [points], "mark": {"type": "point", "filled": True, "size": 55},
             "encoding": {"x": x, "color": colour, "shape": shapes, "y": {**y, "field": figure}}},
        ],
    }  # fmt: skip
