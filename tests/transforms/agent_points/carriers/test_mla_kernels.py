"""MLA under SGLang on Hopper against measured kernels: a prefill in absorbed form, and a slow read of an FP8 cache.

Kernels of 16 heads (DeepSeek-V3 on 8 GPUs) on H200, in ms of one layer, as AIConfigurator 0.12.0 has them
(``context_mla_perf`` and ``generation_mla_perf`` of SGLang 0.5.14 and TensorRT-LLM 1.3.0rc20).
"""

import polars as pl
import pytest

from pipelines.reading.catalogues import load_hardware
from tests.transforms.factory import model, shipped_points
from transforms.agent_points.carriers.step_parts import StepParts
from transforms.agent_points.rows.columns import ROW_FIGURES
from transforms.agent_points.rows.gpu import Gpu
from transforms.agent_points.rows.lookups import add_private_columns
from transforms.agent_points.rows.rows import Rows
from transforms.configurations import number_configurations
from transforms.equations.kv_memory import attention_flops

DEEPSEEK = model("deepseek-v3")


def parts(**changed: object) -> StepParts:
    """One shipped row of 8 GPUs, changed."""
    points = shipped_points("candidates/h200_sxm__deepseek-v3__isl4000_osl1000__agg.csv.gz")
    row = points.filter(tp=8, dp=1).head(1).with_columns(pl.lit(value).alias(name) for name, value in changed.items())
    private = add_private_columns(row.rename(ROW_FIGURES), DEEPSEEK, load_hardware())
    rows = Rows(number_configurations(private))
    return StepParts(DEEPSEEK, rows, Gpu(rows, "prefill"))


@pytest.mark.parametrize(("tokens", "measured_ms"), [(8_192, 1.986), (16_384, 7.757), (32_768, 30.819)])
def test_a_prefill_in_absorbed_form(tokens: int, measured_ms: float) -> None:
    sglang = parts(backend="sglang", attention_dtype="bf16")
    flops = attention_flops(DEEPSEEK.attention, 0.0, float(tokens))
    assert float(sglang.prefill_attention_ms(1.0, flops)[0]) / 61 == pytest.approx(measured_ms, rel=0.07)


@pytest.mark.parametrize(("contexts", "measured_ms"), [(8, 1.040), (32, 4.022)])
def test_a_latent_in_fp8_is_converted(contexts: int, measured_ms: float) -> None:
    sglang = parts(backend="sglang", attention_dtype="bf16", kv_dtype="fp8")
    assert float(sglang.decode_attention_ms(contexts, 65_537.0)[0]) / 61 == pytest.approx(measured_ms, rel=0.05)


@pytest.mark.parametrize(
    "changed",
    [
        {"backend": "trtllm"},
        {"backend": "sglang", "attention_dtype": "fp8"},
        {"backend": "sglang", "attention_dtype": None},
        {"backend": "sglang", "prefill_hardware": "b200", "decode_hardware": "b200"},
    ],
)
def test_elsewhere_neither_holds(changed: dict[str, object]) -> None:
    rows = parts(**{"attention_dtype": "bf16", "kv_dtype": "fp8", **changed}).rows
    assert rows["_absorbed_prefill"].tolist() == [1.0]
    assert rows["_converts_latent"].tolist() == [False]
