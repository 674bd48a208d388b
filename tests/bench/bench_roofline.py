"""The two roofline presets against AIConfigurator's tables, each row at its own workload.

python -m tests.bench roofline
"""

import polars as pl

from pipelines.reading.catalogues import SHIPPED_TABLES, load_hardware, load_models
from pipelines.reading.inputs import find_files
from pipelines.reading.read_inputs import read_inputs
from schemas.models import ModelSpec
from transforms.agent_points.carriers.roofline import RooflineReplica, TurnTimes, turn_times
from transforms.agent_points.carriers.roofline_pools import pool_times
from transforms.agent_points.carriers.workload import Workload, table_workload
from transforms.agent_points.rows.gpu import Gpu
from transforms.agent_points.rows.lookups import add_private_columns
from transforms.agent_points.rows.rows import Rows


def main() -> None:
    """Mean absolute errors of latency, TTFT, TPOT and throughput, by model."""
    hardware, models = load_hardware(), load_models()
    rows = read_inputs(find_files([SHIPPED_TABLES]), hardware, models).serving_points
    c = pl.col
    _print_errors(
        "aggregated rows with one prefill a step",
        rows.filter(serving_mode="agg", backend="trtllm", context_requests_per_step=1),
    )
    _print_errors(
        "disaggregated rows with one prompt a prefill",
        rows.filter(c("prefill_pp") * c("decode_pp") == 1, serving_mode="disagg", prefill_batch=1),
    )


def _print_errors(kind: str, rows: pl.DataFrame) -> None:
    print(f"Mean absolute error against {rows.height:,} {kind}")
    print(f"{'preset':12}{'model':18}{'rows':>7}{'latency':>9}{'TTFT':>8}{'TPOT':>8}{'rate':>8}")
    dense = pl.when(pl.col("expert_dtype").is_null()).then(pl.lit("all dense")).otherwise(pl.lit("all experts"))
    for preset in ("article", "calibrated"):
        errors = pl.concat(
            row_errors(part, str(model), float(isl), float(osl), preset)
            for (model, isl, osl), part in rows.group_by("model", "isl_tokens", "osl_tokens", maintain_order=True)
        )
        kinds, whole = errors.with_columns(model=dense), errors.with_columns(model=pl.lit("all"))
        for (model,), part in pl.concat([errors, kinds, whole]).group_by("model", maintain_order=True):
            means = part.select(pl.col("latency", "ttft", "tpot", "rate").abs().mean()).row(0)
            print(
                f"{preset:12}{model!s:18}{part.height:7,}{means[0]:9.1%}"
                + "".join(f"{mean:8.1%}" for mean in means[1:])
            )


def _times(part: pl.DataFrame, spec: ModelSpec, workload: Workload, preset: str) -> TurnTimes:
    rows = Rows(add_private_columns(part, spec, load_hardware()))
    if part["serving_mode"].first() == "disagg":
        return pool_times(preset, rows, workload, spec)
    replica = RooflineReplica.of_rows(rows, spec, Gpu(rows, "decode"), workload.decode_context_tokens)
    return turn_times(preset, replica, rows["batch_per_rank"], workload, spec)


def row_errors(part: pl.DataFrame, model: str, isl: float, osl: float, preset: str) -> pl.DataFrame:
    """Errors of a preset on rows of one model and workload, as fractions."""
    spec = load_models().get(model)
    workload = table_workload(isl, osl, spec.attention)
    times = _times(part, spec, workload, preset)
    c = pl.col
    predicted = part.with_columns(
        _ttft=pl.Series(1e3 * times.mean_ttft_s),
        _tpot=pl.Series(1e3 * times.tpot_s),
        _latency=pl.Series(1e3 * times.latency_s(osl)),
        _rate=pl.Series(times.requests_per_s),
    )
    return predicted.select(
        "model",
        "expert_dtype",
        latency=c("_latency") / c("request_latency_ms") - 1,
        ttft=c("_ttft") / c("ttft_ms") - 1,
        tpot=c("_tpot") / c("tpot_ms") - 1,
        rate=c("_rate") / c("requests_per_s") - 1,
    )


if __name__ == "__main__":
    main()
