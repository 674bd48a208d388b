"""What a lake knows each model on each GPU by, and why it is no more than that."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

import polars as pl

from pipelines.lake.query import LakeQuery
from pipelines.reading.catalogues import COVERAGE_ACCOUNT
from schemas.catalogue import HardwareCatalogue, ModelCatalogue

Kind = Literal["table", "calibrated", "shared", "roofline", "nothing"]
KINDS: Final[tuple[Kind, ...]] = ("table", "calibrated", "shared", "roofline", "nothing")
_POINTS: Final = """
    SELECT points.model, points.hardware, points.source, points.backend, points.shared_from, infeasible_reason,
        transfer_method = 'calibrated' AS calibrated, bool_or(feasible) AS feasible, count(*) AS points
    FROM agent_points AS points GROUP BY ALL
"""


@dataclass(frozen=True)
class Coverage:
    """A model on a GPU: the best that it is known by, and why in a few words."""

    model: str
    hardware: str
    kind: Kind
    why: str


def coverage(lake: LakeQuery, models: ModelCatalogue, hardware: HardwareCatalogue) -> list[Coverage]:
    """Each model on each GPU of the catalogues, in their order."""
    points = lake.frame(_POINTS)
    groups = {(str(model), str(gpu)): group for (model, gpu), group in points.group_by("model", "hardware")}
    account = _account(hardware)
    return [
        covered_by(spec.slug, gpu.slug, groups.get((spec.slug, gpu.slug)), account)
        for spec in models
        for gpu in hardware
    ]


def covered_by(model: str, gpu: str, points: pl.DataFrame | None, account: pl.DataFrame) -> Coverage:
    """What a model on a GPU is known by: ``points`` are its groups of agent points, ``account`` the questions asked."""
    if points is None:
        return Coverage(model, gpu, "nothing", "no table and no roofline")
    fits = points.filter("feasible")
    if fits.is_empty():
        most = points.sort("points", descending=True)["infeasible_reason"].to_list()[0]
        return Coverage(model, gpu, "nothing", f"{most or 'no point that fits'} at every load")
    own = fits.filter(pl.col("shared_from").is_null(), pl.col("source") != "roofline")
    tables = own.filter(~pl.col("calibrated").fill_null(False))
    if not tables.is_empty():
        return Coverage(model, gpu, "table", _sources(tables))
    if not own.is_empty():
        return Coverage(model, gpu, "calibrated", f"measured: {_sources(own)}")
    shared = fits.filter(pl.col("shared_from").is_not_null())
    if not shared.is_empty():
        return Coverage(model, gpu, "shared", f"rows of {', '.join(shared['shared_from'].unique().sort())}")
    return Coverage(model, gpu, "roofline", _why_no_table(model, gpu, account))


def _sources(points: pl.DataFrame) -> str:
    named = points.select("source", "backend").unique().sort("source", "backend")
    engines: dict[str, list[str]] = {}
    for source, backend in named.iter_rows():
        engines.setdefault(source, []).append(backend)
    return "; ".join(f"{source}, {' and '.join(names)}" for source, names in engines.items())


def _account(hardware: HardwareCatalogue) -> pl.DataFrame:
    """The questions to AIConfigurator about aggregated replicas at the standard workload, with our names of GPUs."""
    account = pl.read_csv(COVERAGE_ACCOUNT, infer_schema_length=None).filter(serving_mode="agg", isl=4000)
    slugs = {name: gpu.slug for name in account["system"].unique() if (gpu := hardware.lookup(name)) is not None}
    return account.with_columns(hardware=pl.col("system").replace_strict(slugs, default=None, return_dtype=pl.String))


def _why_no_table(model: str, gpu: str, account: pl.DataFrame) -> str:
    if gpu not in account["hardware"]:
        return "AIConfigurator has no kernels of this GPU"
    of_model = account.filter(model=model)
    if of_model.is_empty():
        return "AIConfigurator does not know this model"
    refused = of_model.filter(pl.col("hardware") == gpu, pl.col("state") == "refused")
    if refused.is_empty():
        return "AIConfigurator was not asked yet"
    return f"AIConfigurator refuses: {_in_short(refused['reason'])}"


def _in_short(reasons: Iterable[str]) -> str:
    """The reason that says most of a model on a GPU, without the names of AIConfigurator's exceptions."""
    texts = list(reasons)
    for words, short in (
        ("does not fit", "the weights do not fit"),
        ("no answerable perf data", "it has not measured all kernels of the model"),
        ("Unsupported", "it has no kernels of these precisions"),
        ("MissingSystemFlops", "it has no kernels of these precisions"),
        ("DeepEP", "it has no kernels of this parallelism across nodes"),
    ):
        if any(words in text for text in texts):
            return short
    return texts[0].partition(": ")[2].partition(". ")[0] or texts[0]
