"""Memory that engines leave for KV, by hand and against what their logs say."""

import pytest

from pipelines.reading.catalogues import load_models
from transforms.equations import kv_memory, kv_room

GIB = 2.0**30
MIB = 2.0**20
QWEN3_235B_FP8_ON_TP4 = 48_128  # bytes a token on a GPU: 94 layers * one of 4 KV heads * 2 * 128 * 2 bytes


def weights_per_gpu(model: str, dtype: str, tp: int) -> float:
    spec = load_models().get(model)
    return (spec.non_expert_bytes(dtype) + spec.expert_bytes(dtype)) / tp


def test_vllm_on_four_h100() -> None:
    """vllm-project/vllm#21348: 178,880 tokens of Qwen3-235B in FP8, by the defaults of July 2025.

    0.90 * 79.2 GiB, less the sampler's 40 * 1,024 * 151,936 bytes, which are more than a step of 8,192 tokens takes,
    2 GiB for libraries, and 55.05 GiB of weights.
    """
    offered = 80 * GIB * kv_room.OFFERED_BY_CUDA
    forward = kv_room.forward_bytes(8192.0, 4096.0, 8.0, 0.0, 4.0)
    assert forward == 2 * 8192 * 4096 * 14
    usable = kv_room.vllm_usable_bytes(offered, 9, forward, 1024.0, 151_936.0, 4.0)
    assert usable == pytest.approx(0.90 * 79.2 * GIB - 40 * 1024 * 151_936 - 2 * GIB)
    tokens = (usable - weights_per_gpu("qwen3-235b-a22b", "fp8-block", 4)) / QWEN3_235B_FP8_ON_TP4
    assert tokens == pytest.approx(178_880, rel=0.06)


def test_sglang_on_the_same_gpus() -> None:
    """The same issue: 367,404 tokens with ``--mem-fraction-static 0.93``: twice vLLM's, as it samples no profile."""
    usable = kv_room.sglang_usable_bytes(80 * GIB * kv_room.OFFERED_BY_CUDA, 0.93, 4.0)
    tokens = (usable - weights_per_gpu("qwen3-235b-a22b", "fp8-block", 4)) / QWEN3_235B_FP8_ON_TP4
    assert tokens == pytest.approx(367_404, rel=0.03)


def test_sglang_on_eight_h200() -> None:
    """ai-dynamo/aisimulate#263, not used to choose anything: about 509,000 tokens of DeepSeek-R1 at 0.82."""
    spec = load_models().get("deepseek-r1")
    usable = kv_room.sglang_usable_bytes(141 * GIB * kv_room.OFFERED_BY_CUDA, 0.82, 8.0)
    token = kv_memory.kv_bytes_on_rank(spec.attention, 1.0, 2.0, 8) / 8
    assert (usable - weights_per_gpu("deepseek-r1", "fp8-block", 8)) / token == pytest.approx(509_000, rel=0.05)


def test_the_static_fraction_of_sglang() -> None:
    """H100, TP8: 512 + 1.5 * 8,192 + 1,024 + 2 * 512 + 480 MiB of 81,100 are kept; at least 10 GiB are."""
    offered = 81_100 * MIB
    eight = kv_room.sglang_static_fraction(offered, 8.0, 1.0, 1.0, is_latent=False, role="agg")
    assert eight == pytest.approx(1 - (512 + 12_288 + 1_024 + 1_024 + 480) / 81_100)
    ranks = kv_room.sglang_static_fraction(offered, 8.0, 1.0, 8.0, is_latent=False, role="agg")
    assert eight - ranks == pytest.approx(512 * 8 * 4.5 / 81_100)
    decode = kv_room.sglang_static_fraction(offered, 8.0, 1.0, 1.0, is_latent=True, role="decode")
    assert decode == pytest.approx(1 - 10_240 / 81_100)


@pytest.mark.parametrize(
    ("gib", "small", "tokens", "requests"),
    [(178.2, False, 16_384, 1_024), (79.2, False, 8_192, 1_024), (79.2, True, 2_048, 256), (44.5, False, 2_048, 256)],
)
def test_the_profile_run_of_vllm(gib: float, small: bool, tokens: float, requests: float) -> None:
    assert kv_room.vllm_step_tokens(gib * GIB, small) == tokens
    assert kv_room.vllm_requests(gib * GIB, small) == requests


def test_vllm_counts_its_graphs_from_0_21_on() -> None:
    before, after = (
        kv_room.vllm_usable_bytes(100 * GIB, version, 5 * GIB, 1024.0, 32_000.0, 1.0) for version in (20, 21)
    )
    assert before == pytest.approx((90 - 5 - 0.5) * GIB)
    assert after == pytest.approx((92 - 5 - 1.5 - 0.5) * GIB)


def test_tensorrt_llm_takes_its_share_of_what_is_free() -> None:
    """0.9 * (memory - activations - libraries - weights)."""
    usable = kv_room.trtllm_usable_bytes(100 * GIB, 3 * GIB, 128_256.0, 8.0)
    left = usable - kv_room.TRTLLM_FREE_FRACTION * 20 * GIB
    assert left == pytest.approx(0.9 * (100 - 3 - 2 - 20) * GIB)
