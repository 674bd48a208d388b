"""The step equations on every shipped AIConfigurator row: a row's throughput is that of its own steps (model.md 5.2).

The files are read here with Polars alone, so that nothing of the reader or the mapping takes part.
"""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pipelines.reading.catalogues import SHIPPED, load_models
from transforms.equations import disaggregation as pools
from transforms.equations import engine_steps as steps

#: model.md 5.2: "exact on all agg rows"; TTFT and TPOT carry three decimals.
AGG_TOLERANCE = 3e-4
#: AIConfigurator rounds the workers' rates of slow rows before it matches them.
DISAGG_TOLERANCE = 0.011


@pytest.fixture(scope="module")
def tables() -> list[pl.DataFrame]:
    files = sorted(Path(SHIPPED, "tables", "aiconfigurator").rglob("*.csv*"))
    return [pl.read_csv(path, infer_schema_length=None) for path in files]


def test_aggregated_rows(tables: list[pl.DataFrame]) -> None:
    columns = ("model", "backend", "isl", "osl", "bs", "ctx_tokens", "dp", "pp", "ttft", "tpot", "tokens/s",
               "request_latency")  # fmt: skip
    rows = pl.concat([table.select(columns) for table in tables if "bs" in table.columns], how="vertical_relaxed")
    assert rows.height > 15_000
    assert set(rows["backend"]) == {"trtllm", "vllm", "sglang"}
    models = load_models()
    layers = {name: float(models.find(name).layers) for name in rows["model"].unique()}
    vllm = (rows["backend"] == "vllm").to_numpy()
    batch, osl, ttft, tpot = (rows[name].cast(pl.Float64).to_numpy() for name in ("bs", "osl", "ttft", "tpot"))
    dispatch = np.where(vllm, 0.8 * rows["model"].replace_strict(layers).to_numpy(), 0.0)
    stations = (rows["dp"] * rows["pp"]).to_numpy()

    n_mix = steps.mixed_steps(batch, (rows["ctx_tokens"] / rows["isl"]).to_numpy())
    n_dec = steps.decode_only_steps(n_mix, osl)
    q = steps.ttft_queue_factor(vllm, batch, n_mix)
    m = steps.tpot_mixed_weight(vllm, batch, n_mix, osl)
    t_mix = steps.mixed_step_of_row(ttft, q, dispatch)
    t_dec = steps.decode_step_of_row(tpot, t_mix, m, n_dec)
    assert (t_mix > 0).all()
    assert (t_dec > 0).all()
    rate = steps.requests_per_s(batch, stations, n_mix, n_dec, t_mix, t_dec)
    at_most = 1e3 * stations * batch / rows["request_latency"].to_numpy()
    rate = np.where(vllm, np.minimum(rate, at_most), rate)
    assert rate == pytest.approx(rows["tokens/s"].to_numpy() / (osl - 1), rel=AGG_TOLERANCE)
    # put together again: the row's own figures
    assert steps.ttft(t_mix, q, dispatch) == pytest.approx(ttft, rel=1e-12)
    assert steps.tpot(t_mix, t_dec, m, n_dec) == pytest.approx(tpot, rel=1e-12)


def test_disaggregated_rows(tables: list[pl.DataFrame]) -> None:
    pooled = [f"({pool}){name}" for pool in "pd" for name in ("workers", "bs", "dp", "pp")]
    columns = ("osl", "ttft", "tpot", "tokens/s", *pooled)
    rows = pl.concat(
        [table.select(pl.col(columns).cast(pl.Float64)) for table in tables if "(p)workers" in table.columns]
    )
    assert rows.height > 2_000
    column = {name: rows[name].to_numpy() for name in rows.columns}
    prefill = pools.prefill_pool_rate(
        column["(p)workers"], column["(p)bs"] * column["(p)dp"], pools.prefill_of_row_ms(column["ttft"])
    )
    decode = pools.decode_pool_rate(
        column["(d)workers"], column["(d)bs"] * column["(d)dp"] * column["(d)pp"], column["tpot"], column["osl"]
    )
    stated = column["tokens/s"] / column["osl"]
    assert pools.matched_rate(prefill, decode) == pytest.approx(stated, rel=DISAGG_TOLERANCE)
    # both sides of the match occur
    prefill_bound = 0.9 * prefill < 0.92 * decode
    assert 0 < prefill_bound.sum() < rows.height
