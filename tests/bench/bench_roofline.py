"""The two roofline presets against AIConfigurator's tables, each row at its own workload.

python -m tests.bench roofline
"""

import polars as pl

from pipelines.catalogues import load_hardware, load_models
from pipelines.inputs import find_files
from pipelines.reading import read_inputs
from pipelines.stages import SHIPPED_TABLES
from transforms.agent_points.gpu import Gpu, add_gpu_columns
from transforms.agent_points.roofline_points import turn_times
from transforms.agent_points.roofline_replica import RooflineReplica
from transforms.agent_points.workload import table_workload


def main() -> None:
    """Mean absolute errors of latency, TTFT, TPOT and throughput, by model."""
    hardware, models = load_hardware(), load_models()
    points = read_inputs(find_files([SHIPPED_TABLES]), hardware, models).serving_points
    c = pl.col
    rows = add_gpu_columns(points, hardware).filter(
        (c("serving_mode") == "agg") & (c("backend") == "trtllm") & (c("context_requests_per_step") == 1)
    )
    print(f"Mean absolute error against {rows.height:,} aggregated rows with one prefill a step")
    print(f"{'preset':12}{'model':18}{'rows':>7}{'latency':>9}{'TTFT':>8}{'TPOT':>8}{'rate':>8}")
    for preset in ("article", "calibrated"):
        errors = pl.concat(
            _errors(part, str(model), float(isl), float(osl), preset)
            for (model, isl, osl), part in rows.group_by("model", "isl_tokens", "osl_tokens", maintain_order=True)
        )
        whole = errors.with_columns(model=pl.lit("all"))
        for (model,), part in pl.concat([errors, whole]).group_by("model", maintain_order=True):
            means = part.select(pl.col("latency", "ttft", "tpot", "rate").abs().mean()).row(0)
            print(
                f"{preset:12}{model!s:18}{part.height:7,}{means[0]:9.1%}"
                + "".join(f"{mean:8.1%}" for mean in means[1:])
            )


def _errors(part: pl.DataFrame, model: str, isl: float, osl: float, preset: str) -> pl.DataFrame:
    spec = load_models().get(model)
    workload = table_workload(isl, osl, spec.attention)
    replica = RooflineReplica.of_rows(part, spec, Gpu.of_pool("decode"), workload.decode_context_tokens)
    times = turn_times(preset, replica, part["batch_per_rank"].to_numpy(), workload, spec)
    c = pl.col
    predicted = part.with_columns(
        _ttft=pl.Series(1e3 * times.mean_ttft_s),
        _tpot=pl.Series(1e3 * times.tpot_s),
        _latency=pl.Series(1e3 * times.latency_s(osl)),
        _rate=pl.Series(times.requests_per_s),
    )
    return predicted.select(
        "model",
        latency=c("_latency") / c("request_latency_ms") - 1,
        ttft=c("_ttft") / c("ttft_ms") - 1,
        tpot=c("_tpot") / c("tpot_ms") - 1,
        rate=c("_rate") / c("requests_per_s") - 1,
    )


if __name__ == "__main__":
    main()
