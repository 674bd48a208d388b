"""Every column of every format is given bad values: nothing ends in a traceback, and `check` and `build` agree."""

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from pipelines.lake.query import open_lake
from pipelines.reading.catalogues import load_hardware, load_models
from pipelines.reading.gathering import FileAccount
from pipelines.reading.inputs import find_files
from pipelines.reading.read_inputs import Inputs, read_inputs
from schemas.options import BuildOptions
from tests.faults.tries import TRIED
from tests.pipelines.builds import build
from tests.sources.every_format import EXAMPLES
from tests.sources.mutations import read_table, write_table
from tests.sources.test_fuzz import FILES


def read(folder: Path, keep_points: bool) -> Inputs:
    return read_inputs(find_files([folder]), load_hardware(), load_models(), keep_points=keep_points)


def unaccounted(account: FileAccount) -> bool:
    used = account.rows_accepted + account.rows_duplicate + account.rows_superseded
    return account.rows_read != used + account.rows_quarantined


@pytest.mark.slow
def test_what_check_accepts_is_what_a_build_publishes(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Reading conforms to the tables, and a build carries and publishes whatever was judged good."""
    tables = tmp_path / "tables"
    values = {}
    for name, example in EXAMPLES.items():
        folder = tables / name.replace(" ", "-")
        folder.mkdir(parents=True)
        if example.says:
            (folder / "source.yaml").write_text(example.says)
        values[name] = 0
        for number, (spoiled, content) in enumerate([(0, example.content), *example.spoil(example.content)]):
            (folder / f"{number:04d}.{'parquet' if content.startswith(b'PAR1') else 'csv'}").write_bytes(content)
            values[name] += spoiled
    checked = read(tables, keep_points=False)
    assert not any(map(unaccounted, checked.accounts))
    for name, example in EXAMPLES.items():
        good = next(account for account in checked.accounts if account.path == f"{name.replace(' ', '-')}/0000.csv"
                    or account.path == f"{name.replace(' ', '-')}/0000.parquet")  # fmt: skip
        assert (good.rejected_reason is None, good.rows_quarantined) == (example.is_read, 0), (name, good)
        assert values[name] > 50, name
    options = BuildOptions(tables=(tables,), scenarios=("code-agent",), out=tmp_path / "lake")
    assert build(options).release is not None
    with open_lake(options.out) as lake:
        sources = list(lake.query("FROM sources ORDER BY path").rows())
        tables_read = ("serving_points WHERE source <> 'roofline'", "measured_agentic")
        published = sum(next(lake.query(f"SELECT count(*) FROM {table}").rows())[0] for table in tables_read)
    assert sources == checked.sources.sort("path").rows()
    accepted = sum(account.rows_accepted for account in checked.accounts)
    assert published == accepted > 100
    rows = sum(account.rows_read for account in checked.accounts)
    tried = ", ".join(f"{number:,} {name}" for name, number in values.items())
    record_property(TRIED, f"spoiled values: {tried}; {rows:,} rows, {accepted:,} accepted, 0 failed")


def test_check_and_build_agree_on_a_throughput_of_zero(tmp_path: Path) -> None:
    table = read_table(FILES["agg"][0])
    for column in ("tokens/s/gpu", "ttft", "tokens/s/user"):
        changed = [list(line) for line in table]
        changed[1][table[0].index(column)] = "0"
        (tmp_path / f"{column.replace('/', '-')}.csv").write_bytes(write_table(changed))
    checked, built = read(tmp_path, keep_points=False), read(tmp_path, keep_points=True)
    assert checked.accounts == built.accounts
    assert [account.rows_quarantined for account in built.accounts] == [1] * 3
    zero = built.quarantine.filter(pl.col("source_file") == "tokens-s-gpu.csv")
    assert zero.select("reason", "detail").rows() == [
        ("out_of_range", "output_tokens_per_s_per_gpu is 0.0, not above 0 (column tokens/s/gpu of the file)")
    ]
