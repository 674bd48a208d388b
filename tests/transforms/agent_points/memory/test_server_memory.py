"""``kv_tokens``, the server's own figure, rules the memory of its replica; whose figure it is is said."""

import polars as pl
import pytest

from pipelines.reading.catalogues import load_hardware, load_models
from tests.transforms.agent_points.memory.test_capacity import KAPPA_70B, constant_context
from tests.transforms.factory import agent_points, article_scenario, model, roofline_points, setting, shipped_points
from transforms.agent_points.memory.idle_kv import scenario_under
from transforms.serving_points.server_memory import flag_kv_tokens

AGG = "candidates/h100_sxm__llama-3.1-70b__isl4000_osl1000__agg.csv.gz"
DISAGG = "candidates/h200_sxm__llama-3.1-8b__isl4000_osl1000__disagg.csv.gz"
TOKENS = 900_000


def with_tokens(rows: pl.DataFrame, tokens: int | None) -> pl.DataFrame:
    return rows.with_columns(kv_tokens=pl.lit(tokens, pl.Int64))


def test_the_servers_figure_rules() -> None:
    """900,000 tokens hold 45 sessions of 20,000, whatever the reserve and however many heads are copied."""
    rows = with_tokens(shipped_points(AGG).filter(kv_dtype="bf16", dp=1).head(30), TOKENS)
    for option in ({}, {"reserve_fraction": 0.5}):
        points = agent_points(rows, setting("h100-sxm", "llama-3-1-70b", constant_context(20_000), **option))
        assert set(points["kv_room_source"]) == {"server"}
        assert set(points["max_sessions"]) == {45}
        copies = points["tp"] / points["tp"].clip(upper_bound=8)
        assert points["kv_bytes_available"].to_list() == pytest.approx((copies * TOKENS * KAPPA_70B).to_list())
        assert not points["infeasible_reason"].is_in(["weights_do_not_fit"]).any()


def test_ranks_share_the_figure() -> None:
    """Eight ranks have 112,500 tokens each: five sessions of 20,000 and 40 together, not 45."""
    rows = with_tokens(roofline_points("h200-sxm", "deepseek-v3", tp=1, dp=8), TOKENS)
    points = agent_points(rows, setting("h200-sxm", "deepseek-v3", constant_context(20_000)))
    assert set(points["max_sessions"]) == {40}


def test_the_least_of_a_configuration_counts() -> None:
    """Rows of one deployment whose servers state different figures have one memory."""
    rows = shipped_points(AGG).filter(kv_dtype="bf16", tp=8, context_requests_per_step=1).head(4)
    stated = rows.with_columns(kv_tokens=pl.Series([TOKENS, 880_000, None, TOKENS][: rows.height], dtype=pl.Int64))
    points = agent_points(stated, setting("h100-sxm", "llama-3-1-70b", constant_context(20_000)))
    assert set(points["max_sessions"]) == {44}


def test_sessions_of_a_mix_fill_the_servers_tokens() -> None:
    rows = with_tokens(shipped_points(AGG).filter(kv_dtype="bf16", tp=8).head(4), TOKENS)
    scenario = article_scenario("code-agent")
    points = agent_points(rows, setting("h100-sxm", "llama-3-1-70b", scenario_under(scenario, setting(
        "h100-sxm", "llama-3-1-70b", scenario).options)))  # fmt: skip
    assert set(points["max_sessions"]) == {TOKENS // scenario.mean_context_tokens}


def test_a_hybrid_models_tokens_are_of_whole_sessions() -> None:
    """Layers with a state: a session of 20,000 tokens takes 20,000 of the server's."""
    spec = model("qwen3-5-35b-a3b")
    rows = with_tokens(roofline_points("h200-sxm", spec.slug, tp=1, dp=1), TOKENS)
    points = agent_points(rows, setting("h200-sxm", spec, constant_context(20_000)))
    assert set(points["max_sessions"]) == {45}


def test_a_disaggregated_figure_is_of_no_pool() -> None:
    rows = shipped_points(DISAGG).head(5)
    both = [
        agent_points(each, setting("h200-sxm", "llama-3-1-8b", article_scenario()))
        for each in (rows, with_tokens(rows, TOKENS))
    ]
    assert both[0]["max_sessions"].to_list() == both[1]["max_sessions"].to_list()
    assert set(both[1]["kv_room_source"]) == {"engine"}


def test_it_is_said_whose_figure_it_is() -> None:
    engine, roofline = shipped_points(AGG).head(3), roofline_points("h100-sxm", "llama-3-1-70b", tp=8)
    unknown = engine.with_columns(backend=pl.lit("atom"))
    scenario = article_scenario()

    def source(rows: pl.DataFrame, **options: float) -> set[str]:
        return set(agent_points(rows, setting("h100-sxm", "llama-3-1-70b", scenario, **options))["kv_room_source"])

    assert [source(rows) for rows in (engine, roofline, unknown)] == [{"engine"}, {"assumed"}, {"assumed"}]
    assert source(engine, reserve_fraction=0.1) == source(roofline, reserve_fraction=0.1) == {"option"}


def test_engines_differ_on_the_same_gpus() -> None:
    """Qwen3-235B in FP8 on four H100 by each engine's defaults; a tenth of the memory kept leaves twice vLLM's room.

    SGLang's 367,404 tokens of vLLM#21348 are with --mem-fraction-static 0.93, its default there is 0.82.
    """
    rows = roofline_points("h100-sxm", "qwen3-235b-a22b", weight_dtype="fp8", tp=4, dp=1).head(1)
    left = {
        engine: agent_points(
            rows.with_columns(backend=pl.lit(engine), backend_version=pl.lit("0.9.2"), source=pl.lit("generic")),
            setting("h100-sxm", "qwen3-235b-a22b", constant_context(20_000)),
        )["kv_bytes_available"][0]
        / (4 * 48_128)
        for engine in ("vllm", "sglang", "trtllm", "atom")
    }
    assert left["vllm"] == pytest.approx(178_880, rel=0.07)
    assert left["sglang"] == pytest.approx(left["vllm"], rel=0.07)
    assert (
        left["vllm"] < left["atom"] < left["trtllm"]
    )  # a tenth of what weights leave is little where they leave little
    assert left["atom"] > 2 * 178_880


@pytest.mark.parametrize(
    ("tokens", "reason"), [(500_000, None), (1_500_000, None), (5_000_000, "kv_tokens_above_memory")]
)
def test_no_server_holds_several_times_its_memory(tokens: int, reason: str | None) -> None:
    """70B in 16 bits on four H100: 343.6e9 - 141.1e9 bytes are 618,000 tokens of 327,680 bytes."""
    rows = with_tokens(shipped_points(AGG).filter(kv_dtype="bf16", tp=4, pp=1, dp=1).head(2), tokens)
    flagged = flag_kv_tokens(
        rows.with_columns(reason=pl.lit(None, pl.String), detail=pl.lit(None, pl.String)),
        load_hardware(),
        load_models(),
    )
    assert flagged["reason"].to_list() == [reason] * rows.height
    if reason is not None:
        assert "5000000 tokens of KV take 1638.4 GB in bf16" in flagged["detail"][0]
