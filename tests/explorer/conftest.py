"""A small real lake for the explorer: Llama 3.1 70B on two GPUs, aggregated and disaggregated, with prices."""

from pathlib import Path

import pytest

from schemas.options import BuildOptions
from tests.pipelines.builds import CANDIDATES, build

PRICES = """
prices:
  - {hardware: h100-sxm, usd_per_gpu_hour: 2.5, source: made up, date: 2026-01-15}
  - {hardware: h200-sxm, usd_per_gpu_hour: 3.25, source: made up, date: 2026-01-15}
"""


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explorer") / "lake"
    tables = tuple(
        CANDIDATES / f"{gpu}__llama-3.1-70b__isl4000_osl1000__{mode}.csv.gz"
        for gpu in ("h100_sxm", "h200_sxm")
        for mode in ("agg", "disagg")
    )
    prices = folder.parent / "prices.yaml"
    prices.write_text(PRICES)
    scenarios = ("code-agent", "research-agent", "deep-reasoning")
    build(BuildOptions(tables=tables, scenarios=scenarios, synthesize=False, prices=prices, out=folder), full=True)
    return folder
