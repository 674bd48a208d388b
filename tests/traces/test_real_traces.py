"""The figures of the real traces beside the repository, and the shipped scenarios that rest on them."""

from pathlib import Path

import polars as pl
import pytest

from pipelines.reading.catalogues import load_models, load_scenarios, shipped_scenarios
from pipelines.reading.traces import FitOptions, fit_scenario
from schemas.scenarios import Scenario
from schemas.trace_statistics import Spread, TraceStatistics
from transforms.cache import constant_hit_rate

PUBLISHED_TIMEOUTS = {10: 0.447, 30: 0.697, 60: 0.774, 300: 0.896, 3600: 0.958}


def fitted(*paths: Path, **options: float) -> tuple[Scenario, TraceStatistics]:
    scenario = fit_scenario(paths, FitOptions("fitted", **options))  # type: ignore[arg-type]
    assert scenario.statistics is not None
    return scenario, scenario.statistics


@pytest.fixture(scope="module")
def weka_table(shared: Path) -> Path:
    return shared / "traces" / "weka_requests.csv.gz"


def test_weka_figures_within_a_hundredth(weka_table: Path) -> None:
    scenario, found = fitted(weka_table)
    assert (found.sessions, found.requests) == (710, 48_658)

    def near(spread: Spread, mean: float, middle: float) -> bool:
        return spread.mean == pytest.approx(mean, rel=0.01) and spread.p50 == pytest.approx(middle, rel=0.01)

    assert near(found.turns, 68.5, 45)
    assert near(found.initial_prompt_tokens, 91_200, 24_500)
    assert near(found.output_tokens, 439, 216)
    assert found.cache.token_hit_rate == pytest.approx(0.963, rel=0.01)
    at = {hit.timeout_s: hit.token_hit_rate for hit in found.cache.by_timeout}
    assert {time: at[time] for time in PUBLISHED_TIMEOUTS} == pytest.approx(PUBLISHED_TIMEOUTS, rel=0.01)
    assert (scenario.turns, scenario.initial_prompt_tokens) == (68.53, 91_240)
    assert found.subagent_requests == 49_334 - 48_658
    assert found.pauses_s.tool is not None
    assert found.pauses_s.tool.p50 == 9
    assert found.pauses_s.person is not None
    assert found.pauses_s.person.p50 == pytest.approx(210, rel=0.01)


def test_pauses_of_weka_as_two_log_normals_keep_their_quantiles(weka_table: Path) -> None:
    """Not the mean: the tail beyond an hour is heavier than a log-normal's body tells."""
    from transforms.cache import PauseDistribution

    _, found = fitted(weka_table)
    assert found.pauses_s.mixture is not None
    assert found.pauses_s.all is not None
    pauses = PauseDistribution.log_normals(found.pauses_s.mixture)
    for share, limit in ((0.5, found.pauses_s.all.p50), (0.9, found.pauses_s.all.p90), (0.99, found.pauses_s.all.p99)):
        assert float(pauses.share_within(limit)) == pytest.approx(share, abs=0.04)


@pytest.mark.parametrize("number", ["0001", "0008", "0026"])
def test_the_originals_and_the_table_made_from_them_agree(
    shared: Path, weka_table: Path, number: str, tmp_path: Path
) -> None:
    rows = pl.read_csv(weka_table, infer_schema_length=None).filter(pl.col("trace") == f"trace_{number}")
    rows.write_csv(tmp_path / "one.csv")
    scenario, original = fitted(shared / "traces" / f"weka_trace_{number}.json")
    from_table, table = fitted(tmp_path / "one.csv")
    fields = {"source", "statistics"}
    assert scenario.model_dump(exclude=fields) == from_table.model_dump(exclude=fields)
    assert any(note.startswith("Columns not read: lcp_tok, prev_isl,") for note in table.notes)
    fields = {"format", "files", "system_and_tool_tokens", "notes"}
    assert original.model_dump(exclude=fields) == table.model_dump(exclude=fields)
    assert original.system_and_tool_tokens is not None
    assert 14_000 < original.system_and_tool_tokens.mean < 18_000


def test_tracelab_rounds_have_the_observed_cache(shared: Path) -> None:
    scenario, found = fitted(shared / "traces" / "tracelab_example_sanitized_round_trace.jsonl")
    assert (found.sessions, found.requests, found.cache.reuse) == (2, 19, "observed")
    assert found.cache.by_timeout == ()
    assert scenario.shared_prefix_tokens == pytest.approx((27_217 + 6_912) / 2, rel=1e-3)  # read by the first rounds
    assert found.pauses_s.person is not None
    assert found.pauses_s.person.count == 3


def test_replay_mooncake_and_text_are_fitted(shared: Path) -> None:
    _, replay = fitted(shared / "traces" / "tracelab_replay_multi_session_large.csv")
    assert (replay.sessions, replay.requests, replay.output_retention_fraction) == (48, 303, 1)
    assert replay.cache.cache_hit_rate == 1  # each prefix is all that came before
    _, mooncake = fitted(shared / "traces" / "mooncake_synthetic_trace.jsonl")
    assert mooncake.requests == 3_993
    assert mooncake.counts.sessions_inferred == mooncake.sessions
    text, found = fitted(shared / "traces" / "lmcache_miniswe_d80534b2.jsonl")
    assert (text.turns, found.cache.cache_hit_rate) == (14, 1)
    assert found.counts.time_reversals == 0  # sorted
    assert any("estimates" in note for note in found.notes)


@pytest.mark.parametrize(
    ("slug", "within", "cap"), [("claude-code", 200_000, 3_600.0), ("agentx-replay", 262_144, 10.0)]
)
def test_shipped_scenarios_follow_their_rule(
    weka_table: Path, tmp_path: Path, slug: str, within: int, cap: float
) -> None:
    rows = pl.read_csv(weka_table, infer_schema_length=None).filter(pl.col("stream") == "main")
    kept = rows.filter((pl.col("isl") + pl.col("osl")).max().over("trace") <= within)
    kept.write_csv(tmp_path / "kept.csv")
    fit, found = fitted(tmp_path / "kept.csv", cap_pauses_s=cap, cache_timeout_s=300.0)
    (shipped,) = load_scenarios([slug])
    last = kept.sort("trace", "k").group_by("trace").agg(pl.col("isl").last())["isl"].mean()
    assert isinstance(last, float)
    growth = (last - found.initial_prompt_tokens.mean) / (found.turns.mean - 1)
    assert shipped.turns == pytest.approx(fit.turns, rel=0.01)
    assert shipped.think_time_s == pytest.approx(fit.think_time_s, rel=0.03)
    assert shipped.initial_prompt_tokens == pytest.approx(fit.initial_prompt_tokens, rel=0.01)
    assert shipped.output_tokens_per_turn == pytest.approx(fit.output_tokens_per_turn, rel=0.01)
    assert shipped.context_growth_tokens == pytest.approx(growth, rel=0.01)
    hits = constant_hit_rate(fit) if slug == "claude-code" else found.cache.cache_hit_rate
    # of an evicting cache, what it finds in memory without end
    assert constant_hit_rate(shipped) == pytest.approx(hits, abs=0.005)


def test_mini_swe_follows_its_trace(shared: Path) -> None:
    fit, _ = fitted(shared / "traces" / "lmcache_miniswe_d80534b2.jsonl")
    (shipped,) = load_scenarios(["mini-swe"])
    for field in ("turns", "initial_prompt_tokens", "new_tokens_per_turn", "output_tokens_per_turn"):
        assert getattr(shipped, field) == pytest.approx(getattr(fit, field), rel=0.03), field
    assert constant_hit_rate(shipped) == pytest.approx(constant_hit_rate(fit), rel=0.03)


def test_shipped_scenarios_fit_the_models_they_are_meant_for() -> None:
    """All but a few small models take 131,072 tokens or more."""
    defaults = load_scenarios()
    assert [scenario.slug for scenario in defaults] == [
        "code-agent", "research-agent", "deep-reasoning", "claude-code", "chat-with-tools",
    ]  # fmt: skip
    further = [scenario for scenario in shipped_scenarios() if scenario not in defaults]
    assert [s.slug for s in further] == ["agentx-replay", "mini-swe"]
    windows = [model.max_context_tokens for model in load_models() if model.max_context_tokens is not None]
    for scenario in (*defaults[3:], *further):
        fits = sum(window >= scenario.peak_context_tokens for window in windows)
        assert fits >= 0.75 * len(windows), scenario.slug
        assert scenario.source != "not stated"


def test_chat_has_mooncakes_mean_context() -> None:
    (chat,) = load_scenarios(["chat-with-tools"])
    assert chat.mean_context_tokens == pytest.approx(8_596, rel=0.01)
    assert chat.think_time_s == pytest.approx((84 + 7.8 * 0.3) / 8.8, rel=0.03)
    assert chat.cache_hit_rate == pytest.approx((7.8 * 0.90 + 0.55) / 8.8, abs=0.005)
