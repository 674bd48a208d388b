"""What a model on a GPU is known by, and why it is no more."""

import polars as pl
import pytest

from pipelines.answering.coverage import covered_by

ACCOUNT = pl.DataFrame(
    {
        "model": ["m", "m", "m", "other"],
        "hardware": ["h100-sxm", "l40s", "b200", "gb200"],
        "state": ["refused", "refused", "not asked yet", "answered"],
        "reason": [
            "ValueError: Unsupported moe quant mode 'int4_wo' for system='h100_sxm'",
            "InsufficientMemoryError: sweep_agg: no results, model does not fit in GPU memory",
            None,
            None,
        ],
    }
)
TABLE: dict[str, object] = {"source": "aiconfigurator", "backend": "trtllm"}
ROOFLINE: dict[str, object] = {"source": "roofline", "backend": "roofline"}


def points(*groups: dict[str, object]) -> pl.DataFrame:
    plain = {"shared_from": None, "infeasible_reason": None, "calibrated": False, "feasible": True, "points": 1}
    schema = {"source": pl.String, "backend": pl.String, "shared_from": pl.String, "infeasible_reason": pl.String,
              "calibrated": pl.Boolean, "feasible": pl.Boolean, "points": pl.Int64}  # fmt: skip
    return pl.DataFrame([{**plain, **group} for group in groups], schema=schema)


@pytest.mark.parametrize(
    ("groups", "kind", "why"),
    [
        ([TABLE, {**TABLE, "backend": "vllm"}, ROOFLINE], "table", "aiconfigurator, trtllm and vllm"),
        ([{**TABLE, "source": "inferencex", "calibrated": True}], "calibrated", "measured: inferencex, trtllm"),
        ([{**TABLE, "shared_from": "twin"}, ROOFLINE], "shared", "rows of twin"),
        ([{**TABLE, "feasible": False}, {**TABLE, "shared_from": "twin"}], "shared", "rows of twin"),
        (
            [{**TABLE, "feasible": False, "infeasible_reason": "weights_do_not_fit"}],
            "nothing",
            "weights_do_not_fit at every load",
        ),
    ],
)
def test_the_best_that_fits_is_what_it_is_known_by(groups: list[dict[str, object]], kind: str, why: str) -> None:
    known = covered_by("m", "h100-sxm", points(*groups), ACCOUNT)
    assert (known.kind, known.why) == (kind, why)


@pytest.mark.parametrize(
    ("model", "gpu", "why"),
    [
        ("m", "h100-sxm", "AIConfigurator refuses: it has no kernels of these precisions"),
        ("m", "l40s", "AIConfigurator refuses: the weights do not fit"),
        ("m", "b200", "AIConfigurator was not asked yet"),
        ("m", "mi300x", "AIConfigurator has no kernels of this GPU"),
        ("new", "h100-sxm", "AIConfigurator does not know this model"),
    ],
)
def test_a_roofline_says_why_there_is_no_table(model: str, gpu: str, why: str) -> None:
    known = covered_by(model, gpu, points(ROOFLINE), ACCOUNT)
    assert (known.kind, known.why) == ("roofline", why)


def test_what_no_row_is_of() -> None:
    assert covered_by("m", "h100-sxm", None, ACCOUNT).kind == "nothing"
