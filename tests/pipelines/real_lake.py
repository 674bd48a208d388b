"""A smaller real lake: shipped tables of five kinds, a table with faults, and roofline points beside them."""

from pathlib import Path

import duckdb
import polars as pl

from pipelines.building import build_inputs, stages
from pipelines.lake.release import begin_release
from pipelines.reading.catalogues import SHIPPED, load_hardware, load_models, load_scenarios
from pipelines.reading.inputs import find_files
from pipelines.reading.read_inputs import Inputs, read_inputs
from schemas.catalogue import HardwareCatalogue, ModelCatalogue
from schemas.options import BuildOptions
from schemas.scenarios import Scenario
from tests.pipelines.builds import carry_all
from tests.properties.test_worked_cases import case_01
from tests.transforms.factory import csv_text

AIC = SHIPPED / "tables" / "aiconfigurator"
TABLE_FILES = (
    *(
        AIC / "candidates" / f"{table}__{mode}.csv.gz"
        for table in (
            "h100_sxm__llama-3.1-70b__isl4000_osl1000",
            "b200_sxm__deepseek-v3__isl4000_osl1000",
            "gb200__gpt-oss-120b__isl4000_osl1000",
            "h200_sxm__llama-3.1-70b__isl1024_osl1024",
            "h200_sxm__llama-3.1-70b__isl8192_osl1024",
        )
        for mode in ("agg", "disagg")
    ),
    AIC / "runs" / "h200_sxm__llama-3.1-8b__isl4000_osl1000__backend-auto",
    AIC / "runs" / "h100_sxm__llama-3.1-70b__isl4000_osl1000",  # rows that the candidates hold already
)
HARDWARE = ("h100-sxm", "h200-sxm", "b200", "gb200", "mi355x")
MODELS = ("llama-3-1-8b", "llama-3-1-70b", "deepseek-v3", "gpt-oss-120b", "qwen3-32b")
#: Longer than some of the models can take (131,072 and 163,840 tokens).
LONG = Scenario.model_validate(
    {
        "slug": "long-context", "turns": 4, "think_time_s": 3, "initial_prompt_tokens": 120_000,
        "new_tokens_per_turn": 8_000, "output_tokens_per_turn": 500, "cache_hit_rate": 0.9, "sessions": 6, "gpus": 8,
    }
)  # fmt: skip


class RealLake:
    """The published lake and what it was built from."""

    def __init__(self, folder: Path, prepared: build_inputs.Prepared) -> None:
        self.inputs: Inputs = prepared.inputs
        self.hardware, self.models, self.scenarios = prepared.hardware, prepared.models, prepared.scenarios
        # as any reader opens it; copied once, because each view reads its files anew
        self.connection = duckdb.connect()
        self.connection.execute(f"ATTACH '{folder / 'agent_pareto.duckdb'}' AS lake (READ_ONLY)")
        views = "SELECT view_name FROM duckdb_views() WHERE database_name = 'lake' AND NOT internal"
        for (name,) in self.rows(views):
            self.connection.execute(f"CREATE TABLE {name} AS SELECT * FROM lake.{name}")

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        """Rows of a query over the views."""
        return self.connection.execute(sql).fetchall()

    def frame(self, sql: str) -> pl.DataFrame:
        """The rows of a query as a frame."""
        frame = pl.from_arrow(self.connection.sql(sql).to_arrow_table())
        assert isinstance(frame, pl.DataFrame)
        return frame

    def count(self, sql: str) -> int:
        ((count,),) = self.rows(f"SELECT count(*) FROM {sql}")
        assert isinstance(count, int)
        return count

    def fractions_off(self, table: str, one: str, other: str) -> float:
        """The largest relative difference of two expressions; both must be there on every row."""
        ((missing, worst),) = self.rows(
            f"SELECT count(*) FILTER ((({one}) / ({other})) IS NULL), max(abs(({one}) / ({other}) - 1)) FROM {table}"
        )
        assert missing == 0
        assert isinstance(worst, float)
        return worst


def build_real_lake(folder: Path) -> RealLake:
    """Builds the lake below the folder through the stages of a build, without Prefect."""
    faulty = folder / "faulty.csv"
    faulty.write_text(csv_text(list(case_01().values())))
    hardware = HardwareCatalogue(tuple(load_hardware().get(slug) for slug in HARDWARE))
    models = ModelCatalogue(tuple(load_models().get(slug) for slug in MODELS))
    scenarios = (*load_scenarios(("code-agent", "research-agent", "deep-reasoning")), LONG)
    inputs = read_inputs(find_files([*TABLE_FILES, faulty]), hardware, models)
    # a tenth of the memory kept, whatever the engine: what fits is checked by hand
    options = BuildOptions(tables=TABLE_FILES, synthesize=True, reserve_fraction=0.1, out=folder / "lake")
    prepared = build_inputs.Prepared(options, hardware, models, scenarios, inputs)
    with begin_release(folder / "lake") as release:
        carry_all(prepared, release)
        stages.publish(prepared, release)
    return RealLake(folder / "lake", prepared)
