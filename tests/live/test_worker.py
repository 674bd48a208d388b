"""The worker against AIConfigurator itself: the same figures as in the shipped tables, which its command wrote.

Runs where AGENT_PARETO_AICONFIGURATOR names an environment with AIConfigurator 0.12.0.
"""

import os
from pathlib import Path

import polars as pl
import pytest

from pipelines.live.answers import answer_all
from pipelines.live.program import Program, find_program
from pipelines.live.questions import Question, ServingMode
from pipelines.reading.catalogues import SHIPPED
from pipelines.reading.inputs import open_file
from tests.transforms.factory import judged

pytestmark = pytest.mark.slow
CANDIDATES = SHIPPED / "tables" / "aiconfigurator" / "candidates"
POOL = ("tp", "pp", "dp", "moe_tp", "moe_ep", "bs", "workers")
KEYS = {
    "agg": ("tp", "pp", "dp", "moe_tp", "moe_ep", "bs", "ctx_tokens"),
    "disagg": tuple(f"({pool}){name}" for pool in "pd" for name in POOL),
}


@pytest.fixture(scope="module")
def program() -> Program:
    named = os.environ.get("AGENT_PARETO_AICONFIGURATOR")
    if not named:
        pytest.skip("AGENT_PARETO_AICONFIGURATOR names no environment with AIConfigurator")
    return find_program(Path(named))


def answer(program: Program, cache: Path, mode: ServingMode, isl: int, osl: int, *prefixes: int) -> pl.DataFrame:
    question = Question("h200_sxm", "Qwen/Qwen3-235B-A22B", "trtllm", 8, mode, isl, osl, prefixes)
    (found,) = answer_all([question], program, cache)
    good, bad = judged(open_file(found))
    assert (good.is_empty(), bad.height) == (False, 0)
    return pl.read_csv(found.path, infer_schema_length=None)


@pytest.mark.parametrize("mode", ["agg", "disagg"])
def test_standard_workload(program: Program, tmp_path: Path, mode: ServingMode) -> None:
    rows = answer(program, tmp_path, mode, 4000, 1000, 0)
    shipped = pl.read_csv(
        CANDIDATES / f"h200_sxm__qwen3-235b-a22b__isl4000_osl1000__{mode}.csv.gz", infer_schema_length=None
    )
    both = rows.join(shipped, on=KEYS[mode], suffix="_shipped")
    assert both.height >= 0.9 * shipped.unique(KEYS[mode]).height
    for name in ("ttft", "tpot", "request_latency", "tokens/s/gpu", "num_total_gpus"):
        # a rate of the shipped table has three decimals
        assert both[name].to_list() == pytest.approx(both[f"{name}_shipped"].to_list(), rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("mode", ["agg", "disagg"])
def test_hits_and_misses_are_of_the_same_deployments(program: Program, tmp_path: Path, mode: ServingMode) -> None:
    rows = answer(program, tmp_path, mode, 18_198, 128, 17_586, 0)
    hits, misses = (rows.filter(prefix=prefix).sort(KEYS[mode]) for prefix in (17_586, 0))
    assert hits.select(KEYS[mode]).equals(misses.select(KEYS[mode]))
    assert (hits["ttft"] < misses["ttft"]).all()
    assert (hits["tokens/s/gpu"] >= misses["tokens/s/gpu"]).all()
