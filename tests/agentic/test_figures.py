"""The pictures are drawn from any runs, without a browser."""

from pathlib import Path

import polars as pl

from tests.bench.agentic_figures import draw_hits, draw_speed


def made_runs() -> pl.DataFrame:
    rows = [
        {"tp": tp, "offload": offload, "sessions": float(sessions), "whole": sessions < 64, "wall": 20.0,
         **{f"{of}_throughput": 10.0 * sessions**0.5 for of in ("measured", "scaled", "added")},
         **{f"{of}_latency_s": 5.0 + sessions for of in ("measured", "scaled", "added")},
         **dict.fromkeys(("measured_hit_rate", "scaled_hit_rate", "hit_rate_at_latency"), 1 / (1 + sessions / 20))}
        for tp in (4, 8) for offload in ("off", "on") for sessions in (1, 8, 64)
    ]  # fmt: skip
    return pl.DataFrame(rows)


def test_both_pictures_have_axes_legends_and_their_source(tmp_path: Path) -> None:
    drawn = [*draw_speed(made_runs(), tmp_path), *draw_hits(made_runs(), tmp_path)]
    assert [path.name for path in drawn] == ["agentic.svg", "agentic.png", "agentic_hits.svg", "agentic_hits.png"]
    speed, hits = (path.read_text(encoding="utf-8") for path in (drawn[0], drawn[2]))
    for text in ("output tokens/s per GPU", "mean turn latency, s", "concurrent sessions", "KV offload", "TP8"):
        assert text in speed
    for text in ("hit rate (share of prompt tokens)", "at the measured latency", "TP4, offload on"):
        assert text in hits
    for picture in (speed, hits):
        assert "InferenceX" in picture
        assert "NaN" not in picture
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in (drawn[1], drawn[3]))
