"""A small real lake for the explorer: Llama 3.1 70B on two GPUs, aggregated and disaggregated."""

from pathlib import Path

import pytest

from schemas.options import BuildOptions
from tests.pipelines.builds import CANDIDATES, build


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explorer") / "lake"
    tables = tuple(
        CANDIDATES / f"{gpu}__llama-3.1-70b__isl4000_osl1000__{mode}.csv.gz"
        for gpu in ("h100_sxm", "h200_sxm")
        for mode in ("agg", "disagg")
    )
    build(BuildOptions(tables=tables, synthesize=False, out=folder), full=True)
    return folder
