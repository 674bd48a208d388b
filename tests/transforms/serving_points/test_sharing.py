"""Rows of models of one architecture: each name has all of them, marked, and gives the same answers."""

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipelines.reading.catalogues import load_models
from schemas.catalogue import ModelCatalogue
from tests.transforms.factory import agent_points, article_scenario, setting, shipped_points
from transforms.serving_points.sharing import one_architecture, share_rows

ROWS = "candidates/h100_sxm__llama-3.1-70b__isl4000_osl1000__agg.csv.gz"
LIKE = ("llama-3-1-70b", "llama-3-3-70b")


@pytest.fixture(scope="module")
def rows() -> pl.DataFrame:
    return shipped_points(ROWS).head(40)


def test_architectures_are_told_by_their_sheets() -> None:
    """Not by names: K2 Thinking has no vision tower, and one Qwen3-235B has a longer context than the other."""
    groups = [{spec.slug for spec in specs} for specs in one_architecture(load_models())]
    assert set(LIKE) in groups
    assert {"deepseek-v3", "deepseek-v3-1", "deepseek-r1"} in groups
    assert {"kimi-k2-5", "kimi-k2-6", "kimi-k2-7-code"} in groups
    alone = {"kimi-k2", "kimi-k2-thinking", "qwen3-235b-a22b", "qwen3-235b-a22b-2507", "deepseek-v3-2", "llama-3-1-8b"}
    assert not alone & set().union(*groups)


def test_each_name_has_the_rows_marked(rows: pl.DataFrame) -> None:
    models = load_models()
    shared = share_rows(rows, models)
    own, other = (shared.filter(model=slug) for slug in LIKE)
    assert_frame_equal(own, rows)
    assert own["shared_from"].null_count() == own.height
    assert set(other["shared_from"]) == {LIKE[0]}
    assert set(other["model_name"]) == {models.get(LIKE[1]).name}
    assert shared["point_id"].n_unique() == shared.height == 2 * rows.height
    told = pl.exclude("point_id", "model", "model_name", "shared_from")
    assert_frame_equal(other.select(told), rows.select(told))


def test_rows_of_both_stand_under_both(rows: pl.DataFrame) -> None:
    """Each name has the union, also where the two say the very same under one name of the model."""
    name = load_models().get(LIKE[1]).name
    of_other = rows.head(10).with_columns(
        model=pl.lit(LIKE[1]), model_name=pl.lit(name), point_id=pl.col("point_id") + "x"
    )
    shared = share_rows(pl.concat([rows, of_other]), load_models())
    assert shared.group_by("model").len().sort("model").rows() == [(LIKE[0], 50), (LIKE[1], 50)]
    assert shared["point_id"].n_unique() == 100


def test_a_model_without_rows_of_its_architecture_gets_none(rows: pl.DataFrame) -> None:
    models = load_models()
    alone = ModelCatalogue(tuple(spec for spec in models if spec.slug != LIKE[1]))
    assert_frame_equal(share_rows(rows, alone), rows)
    assert share_rows(rows.clear(), models).is_empty()


def test_the_same_question_has_the_same_answer_under_each_name(rows: pl.DataFrame) -> None:
    shared, scenario = share_rows(rows, load_models()), article_scenario("code-agent")
    mine, others = (
        agent_points(shared.filter(model=slug), setting("h100-sxm", slug, scenario)).select(
            pl.exclude("point_id", "model", "model_name", "shared_from")
        )
        for slug in LIKE
    )
    assert_frame_equal(mine, others)
