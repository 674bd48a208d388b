"""The calibrated roofline with factors learnt on other GPUs, tested on a GPU left out.

python -m tests.bench left_out_gpu
"""

from collections.abc import Sequence
from math import log
from typing import Final

import polars as pl

from pipelines.reading.catalogues import SHIPPED_TABLES, load_hardware, load_models
from pipelines.reading.inputs import find_files
from pipelines.reading.read_inputs import read_inputs
from schemas.hardware import Hardware
from tests.bench.bench_roofline import row_errors

#: What a factor is of, most alike first: what the nearest GPUs have no row of is looked up at the next.
ALIKE: Final = (
    ("model", "weight_dtype", "_batch", "tp", "dp", "moe_ep"),
    ("model", "_batch", "tp", "dp"),
    ("model", "_batch"),
    ("model",),
    ("_kind",),
)
NEAREST: Final = 3


def main() -> None:
    """Mean absolute error of the latency, as it is and with factors, by GPU left out and kind of model."""
    hardware = load_hardware()
    rows = read_inputs(find_files([SHIPPED_TABLES]), hardware, load_models()).serving_points
    rows = rows.filter(serving_mode="agg", context_requests_per_step=1)
    errors = pl.concat(
        _with_errors(part, str(model), float(isl), float(osl))
        for (model, isl, osl), part in rows.group_by("model", "isl_tokens", "osl_tokens", maintain_order=True)
    )
    errors = errors.with_columns(
        _kind=pl.when(pl.col("expert_dtype").is_null()).then(pl.lit("dense")).otherwise(pl.lit("experts")),
        _batch=pl.col("batch_per_rank").log(2).round(0),
    )
    gpus = {str(slug): hardware.get(str(slug)) for slug in errors["hardware"].unique().sort()}
    corrected = pl.concat(_left_out(errors, gpu, list(gpus.values())) for gpu in gpus.values())
    print(f"Mean absolute error of the latency, {errors.height:,} aggregated rows with one prefill a step")
    print(f"{'GPU left out':16}{'models':10}{'rows':>7}{'roofline':>10}{'with factors':>14}")
    whole = corrected.with_columns(hardware=pl.lit("all"))
    for (gpu, kind), part in pl.concat([corrected, whole]).group_by("hardware", "_kind", maintain_order=True):
        means = part.select(pl.col("latency", "_corrected").abs().mean()).row(0)
        print(f"{gpu!s:16}{kind!s:10}{part.height:7,}{means[0]:10.1%}{means[1]:14.1%}")


def _with_errors(part: pl.DataFrame, model: str, isl: float, osl: float) -> pl.DataFrame:
    errors = row_errors(part, model, isl, osl, "calibrated")
    return pl.concat([part, errors.drop("model", "expert_dtype")], how="horizontal")


def _left_out(errors: pl.DataFrame, gpu: Hardware, gpus: Sequence[Hardware]) -> pl.DataFrame:
    """The GPU's rows with the error that factors of the other GPUs leave."""
    others = sorted((other for other in gpus if other != gpu), key=lambda other: _distance(gpu, other))
    rows, found = errors.filter(hardware=gpu.slug), []
    for number, alike in enumerate(ALIKE):
        for nearest in (others[:NEAREST], others):
            learnt = errors.filter(pl.col("hardware").is_in([other.slug for other in nearest]))
            names = {figure: f"_{figure}{number}{len(nearest)}" for figure in ("ttft", "tpot")}
            ratios = [-(1 + pl.col(figure)).log().median().alias(name) for figure, name in names.items()]
            factors = (
                learnt.group_by(*alike, "hardware").agg(ratios).group_by(alike).agg(pl.col(*names.values()).mean())
            )
            rows = rows.join(factors, on=alike, how="left", nulls_equal=True)
            found.append(names)
    times = {
        figure: pl.col(f"{figure}_ms") * (1 + pl.col(figure)) * pl.coalesce(names[figure] for names in found).exp()
        for figure in ("ttft", "tpot")
    }
    latency = times["ttft"] + times["tpot"] * (pl.col("osl_tokens") - 1)
    return rows.select("hardware", "_kind", "latency", _corrected=latency / pl.col("request_latency_ms") - 1)


def _distance(one: Hardware, other: Hardware) -> float:
    """How far the data sheets of two GPUs are apart: 16-bit arithmetic, memory and links."""
    pairs = (
        (one.flops_per_s.bf16, other.flops_per_s.bf16),
        (one.hbm_bandwidth_bytes_per_s, other.hbm_bandwidth_bytes_per_s),
        (one.scale_up_bytes_per_s, other.scale_up_bytes_per_s),
    )
    return sum(abs(log(figure / its)) for figure, its in pairs)


if __name__ == "__main__":
    main()
