"""How fast and in how much memory a thousand tables of a thousand rows are read and judged.

Rows are those of a shipped table with all times stretched, so that every identity still holds and no two
files say the same.
"""

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from pipelines.reading.catalogues import SHIPPED, load_hardware, load_models
from pipelines.reading.inputs import find_files
from pipelines.reading.read_inputs import read_inputs

TABLE = SHIPPED / "tables/aiconfigurator/candidates/h200_sxm__qwen3-32b__isl4000_osl1000__agg.csv.gz"
TIMES = ("ttft", "tpot", "request_latency")
RATES = ("request_rate", "seq/s", "seq/s/gpu", "tokens/s", "tokens/s/gpu", "tokens/s/user")


def write_tables(folder: Path, files: int, rows: int) -> None:
    """``files`` tables of ``rows`` rows each, all rows different."""
    table = pl.read_csv(TABLE, infer_schema_length=None)
    table = pl.concat([table] * (rows // table.height + 1)).head(rows)
    for number in range(files):
        stretch = 1.0 + (pl.int_range(pl.len()) + number * rows) / (3.0 * files * rows)
        stretched = table.with_columns(
            *((pl.col(name) * stretch).round(3) for name in TIMES),
            *((pl.col(name) / stretch).round(3) for name in RATES),
        )
        stretched.write_csv(folder / f"pareto_{number:05}.csv")


def main(arguments: Sequence[str] = ()) -> None:
    """Prints seconds, rows a second and the peak of memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=1000, help="rows of each file")
    parser.add_argument("--keep-points", action="store_true", help="as `build` does; without: as `check` does")
    options = parser.parse_args(list(arguments))
    with tempfile.TemporaryDirectory() as folder:
        write_tables(Path(folder), options.files, options.rows)
        hardware, models = load_hardware(), load_models()
        before, began = _peak_mib(), time.perf_counter()
        found = find_files([Path(folder)])
        inputs = read_inputs(found, hardware, models, keep_points=options.keep_points)
        seconds = time.perf_counter() - began
    read = sum(account.rows_read for account in inputs.accounts)
    accepted = sum(account.rows_accepted for account in inputs.accounts)
    print(
        f"{read:,} rows of {len(found):,} files in {seconds:.1f} s: {read / seconds:,.0f} rows/s; {accepted:,} accepted"
    )
    print(f"peak memory {_peak_mib():,.0f} MiB, {before:,.0f} MiB before reading")


def _peak_mib() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


if __name__ == "__main__":
    main(sys.argv[1:])
