"""What of the answers is shipped: whole curves of the configurations that reach a frontier, and an account of all."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import duckdb
import polars as pl

from pipelines.live.coverage.answers import Answers
from pipelines.live.coverage.wanted import Wanted
from pipelines.live.questions import Question, ServingMode
from schemas.errors import UserError

#: The columns of a table that say something that the others do not.
_COMMON: Final = (
    "model", "isl", "osl", "prefix", "concurrency", "ttft", "tpot", "request_latency", "tokens/s", "tokens/s/gpu",
    "tokens/s/user", "num_total_gpus",
)  # fmt: skip
_AGG: Final = (
    "bs", "tp", "pp", "dp", "moe_tp", "moe_ep", "cp", "gemm", "kvcache", "fmha", "moe", "memory", "ctx_tokens",
    "backend", "version", "system",
)  # fmt: skip
_POOL: Final = (
    "bs", "workers", "tp", "pp", "dp", "moe_tp", "moe_ep", "gemm", "kvcache", "fmha", "moe", "memory", "backend",
    "version", "system",
)  # fmt: skip
COLUMNS: Final[dict[ServingMode, tuple[str, ...]]] = {
    "agg": (*_COMMON, *_AGG, "database_mode"),
    "disagg": (*_COMMON, *(f"({pool}){name}" for pool in "pd" for name in _POOL), "(p)cp", "(e)bs", "database_mode"),
}
#: Rows that may be shipped.
MOST_ROWS: Final = 75_000
_CURVE: Final = (
    "hardware", "model", "configuration_id", "isl_tokens", "osl_tokens", "prefix_tokens", "context_requests_per_step",
)  # fmt: skip
_POINTS: Final = f"SELECT point_id, source_file, source_row, {', '.join(_CURVE)} FROM serving_points"
_ON_FRONTIERS: Final = "SELECT point_id, count(*) AS reached FROM agent_frontier WHERE on_frontier GROUP BY ALL"


def write_tables(wanted: Wanted, answers: Answers, folder: Path) -> int:
    """Each answer as a table under the name of its question, in a new folder; how many."""
    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"{folder} holds files already; name a new folder.")
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for question in wanted.every_question(answers):
        if (table := answers.table(question)) is not None:
            try:
                os.link(table, folder / file_name(question))
            except OSError:  # another disk
                shutil.copyfile(table, folder / file_name(question))
            count += 1
    return count


def file_name(question: Question) -> str:
    """The name of the table that answers a question."""
    return Path(question.name).with_suffix(".parquet").name


def reaching_rows(lake: Path, most: int = MOST_ROWS) -> pl.DataFrame:
    """``source_file``, ``source_row`` and ``reaches`` of all rows of a lake that was built from the tables."""
    database = lake / "agent_pareto.duckdb"
    if not database.is_file():
        raise UserError(f"{lake} is no lake; build one from the tables first.")
    with duckdb.connect(str(database), read_only=True) as connection:
        points, reached = connection.sql(_POINTS).pl(), connection.sql(_ON_FRONTIERS).pl()
    return whole_curves(points, reached, most)


def whole_curves(points: pl.DataFrame, reached: pl.DataFrame, most: int) -> pl.DataFrame:
    """Marks as many whole curves as ``most`` rows hold, those first that are most of their group's frontiers.

    A group is a GPU and a model; ``reached`` says how often a point is on a frontier. A curve on none is not marked.
    """
    frontiers = points.join(reached, on="point_id", how="left").with_columns(pl.col("reached").fill_null(0))
    curves = frontiers.group_by(_CURVE).agg(pl.sum("reached"), rows=pl.len()).filter(pl.col("reached") > 0)
    share = pl.col("reached") / pl.col("reached").sum().over("hardware", "model")
    ranked = curves.with_columns(share=share).sort("share", *_CURVE, descending=[True, *[False] * len(_CURVE)])
    kept = ranked.filter(pl.col("rows").cum_sum() <= most)
    rows = points.join(kept.with_columns(reaches=True), on=list(_CURVE), how="left", nulls_equal=True)
    return rows.select("source_file", "source_row", pl.col("reaches").fill_null(False))


def write_shipped(wanted: Wanted, answers: Answers, rows: pl.DataFrame, folder: Path) -> pl.DataFrame:
    """Writes the ``rows`` as a Parquet file a model and mode; the account: a row a question.

    ``rows`` are all of the lake, those to ship marked by ``reaches``: an answer of which it has none was not compared.
    """
    folder.mkdir(parents=True, exist_ok=True)
    kept = {
        str(name): group.filter("reaches")["source_row"].sort().to_list()
        for (name,), group in rows.group_by("source_file")
    }
    account = []
    tables: dict[tuple[str, ServingMode], list[pl.DataFrame]] = {}
    for question in wanted.every_question(answers):
        path = answers.table(question)
        table = None if path is None else pl.read_parquet(path)
        shipped = None
        if table is not None:
            shipped = _shipped(table, question.serving_mode, kept.get(file_name(question), []))
            if shipped.height:
                tables.setdefault((wanted.slug_of(question), question.serving_mode), []).append(shipped)
        account.append(_account(wanted, answers, question, table, shipped, file_name(question) in kept))
    for (slug, mode), parts in tables.items():
        pl.concat(parts).write_parquet(
            folder / f"{slug}__{mode}.parquet", compression="zstd", compression_level=19, row_group_size=100_000
        )
    return pl.DataFrame(account, infer_schema_length=None)


def _shipped(table: pl.DataFrame, mode: ServingMode, numbers: Sequence[int]) -> pl.DataFrame:
    return table[[number - 1 for number in numbers]].select(
        pl.col(name).cast(pl.Int64) if table.schema[name].is_integer() else pl.col(name) for name in COLUMNS[mode]
    )


def _account(
    wanted: Wanted,
    answers: Answers,
    question: Question,
    table: pl.DataFrame | None,
    shipped: pl.DataFrame | None,
    compared: bool,
) -> dict[str, object]:
    reason = answers.refused(question)
    answered = "answered" if compared else "answered, not compared yet"
    return {
        "model": wanted.slug_of(question),
        "system": question.system,
        "checkpoint": question.model,
        "backend": question.backend,
        "total_gpus": question.total_gpus,
        "serving_mode": question.serving_mode,
        "isl": question.isl,
        "osl": question.osl,
        "kv_dtype": question.kv_dtype or "own",
        "aiconfigurator": answers.version,
        "state": answered if table is not None else "not asked yet" if reason is None else "refused",
        "rows": None if table is None else table.height,
        "rows_shipped": None if shipped is None else shipped.height,
        "reason": None if reason is None else reason[:160],
    }
