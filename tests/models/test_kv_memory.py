"""KV memory: the goldens of docs/model.md, published cache sizes, and properties."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.reading.catalogues import load_models
from schemas.models import AttentionGroup
from transforms.equations.kv_memory import (
    attention_flops,
    attention_pair_sum,
    available_bytes_per_rank,
    kv_bytes,
    kv_bytes_on_rank,
    kv_read_bytes_per_gpu,
    kv_slope_bytes_per_token,
    least_gpus_that_fit,
    max_sessions,
    page_padding_bytes,
    prefix_block_tokens,
    session_bytes_on_rank,
    session_floor_bytes,
    sessions_p95_per_rank,
    state_bytes,
    weights_bytes_per_rank,
)
from transforms.model_config.sheet import model_figures

GIB = 2**30
LLAMA_70B = (AttentionGroup(kind="gqa", layers=80, kv_heads=8, kv_elements_per_entry=2048, flops_per_pair=32768),)
LATENT = (AttentionGroup(kind="mla", layers=61, kv_heads=1, kv_elements_per_entry=576, flops_per_pair=81920),)
WINDOWED = (
    AttentionGroup(
        kind="sliding_window",
        layers=18,
        kv_heads=8,
        kv_elements_per_entry=1024,
        window_tokens=128,
        flops_per_pair=16384,
    ),
    AttentionGroup(kind="gqa", layers=18, kv_heads=8, kv_elements_per_entry=1024, flops_per_pair=16384),
)
HYBRID = (
    AttentionGroup(
        kind="linear", layers=45, kv_heads=64, kv_elements_per_entry=0, state_bytes=4_268_032, flops_per_pair=0
    ),
    AttentionGroup(kind="gqa", layers=15, kv_heads=2, kv_elements_per_entry=1024, flops_per_pair=32768),
)


class TestModelText:
    """model.md 4."""

    @pytest.mark.parametrize(("tokens", "sessions"), [(16_000, 95), (35_152, 43), (56_432, 27)])
    def test_sessions_of_70b_in_500e9_bytes(self, tokens: int, sessions: int) -> None:
        left = available_bytes_per_rank(8, 80e9, 0.0, weights_bytes_per_rank(140e9, 0.0, 1))
        assert left == 500e9
        assert max_sessions(left, session_bytes_on_rank(LLAMA_70B, tokens, 2, 8), 1) == sessions

    @pytest.mark.parametrize(
        ("tp", "dp", "bytes_per_element", "sessions"), [(8, 1, 2, 9), (8, 1, 1, 18), (1, 8, 2, 72), (1, 8, 1, 144)]
    )
    def test_ranks_of_deepseek_v3(self, tp: int, dp: int, bytes_per_element: int, sessions: int) -> None:
        """Case 08: 40 GiB of KV on each of 8 GPUs, 65,536 tokens a session."""
        session = session_bytes_on_rank(LATENT, 65_536, bytes_per_element, tp)
        assert max_sessions(40 * GIB * tp, session, dp) == sessions

    def test_bytes_a_token(self) -> None:
        assert kv_bytes(LLAMA_70B, 1, 2) == 327_680
        assert kv_bytes(LATENT, 1, 2) == 70_272
        assert kv_bytes(LATENT, 1, 1) == 35_136

    @pytest.mark.parametrize(
        ("layers", "kv_heads", "head_dim", "per_gpu"),
        [
            (64, 8, 128, {1: 262144, 4: 65536, 8: 32768, 16: 32768}),
            (40, 8, 128, {1: 163840, 4: 40960, 8: 20480, 16: 20480}),
            (32, 8, 128, {1: 131072, 4: 32768, 8: 16384, 16: 16384}),
            (32, 32, 80, {1: 327680, 4: 81920, 8: 40960, 16: 20480}),
            (48, 4, 128, {1: 98304, 4: 24576, 8: 24576, 16: 24576}),
        ],
    )
    def test_bytes_a_token_on_each_gpu(
        self, layers: int, kv_heads: int, head_dim: int, per_gpu: dict[int, int]
    ) -> None:
        """Case 07: TP divides the heads until each GPU holds one."""
        group = AttentionGroup(
            kind="gqa",
            layers=layers,
            kv_heads=kv_heads,
            kv_elements_per_entry=2 * kv_heads * head_dim,
            flops_per_pair=1,
        )
        for tp, expected in per_gpu.items():
            assert kv_bytes_on_rank([group], 1, 2, tp) / tp == expected
            assert kv_read_bytes_per_gpu([group], 1, 2, tp) == expected

    def test_weights_of_a_rank(self) -> None:
        """Each rank holds the whole non-expert part, experts are spread over all ranks."""
        assert weights_bytes_per_rank(17e9, 654e9, 8) == 17e9 + 654e9 / 8
        assert available_bytes_per_rank(1, 100e9, 0.10, 60e9) == pytest.approx(30e9)
        assert available_bytes_per_rank(2, 100e9, 0.0, 60e9, 5e9) == pytest.approx(130e9)

    def test_a_shared_prefix_is_taken_off_a_session(self) -> None:
        """``kv(Lbar) - kv(S)`` where KV is linear."""
        whole = kv_bytes(LLAMA_70B, 35_152, 2) - kv_bytes(LLAMA_70B, 8_000, 2)
        assert session_bytes_on_rank(LLAMA_70B, 35_152, 2, shared_tokens=8_000) == whole

    def test_a_shared_prefix_leaves_a_window_its_own(self) -> None:
        """The window holds the session's last tokens, not those of the prefix."""
        window = WINDOWED[:1]
        assert session_bytes_on_rank(window, 35_152, 2, shared_tokens=8_000) == kv_bytes(window, 128, 2)


class TestPublishedCaches:
    """Elements of one token and bytes of a state as vLLM allocates them, from a published audit of its code."""

    @pytest.mark.parametrize(
        ("slug", "full_elements", "windowed_elements"),
        [
            ("deepseek-r1", 35_136, 0),
            ("kimi-k2-5", 35_136, 0),
            ("minimax-m2-5", 126_976, 0),
            ("qwen3-235b-a22b", 96_256, 0),
            ("glm-5-2", 44_928, 0),
            ("glm-5-3", 44_928, 0),
            ("gpt-oss-120b", 18_432, 18_432),
            ("gpt-oss-20b", 12_288, 12_288),
            ("gemma-4-26b-a4b", 10_240, 102_400),
            ("gemma-4-31b", 40_960, 409_600),
            ("llama-4-scout", 24_576, 73_728),
            ("nemotron-3-nano-30b-a3b", 3_072, 0),
            ("nemotron-3-super-120b-a12b", 4_096, 0),
            ("nemotron-3-ultra-550b-a55b", 6_144, 0),
        ],
    )
    def test_elements_a_token(self, slug: str, full_elements: int, windowed_elements: int) -> None:
        groups = load_models().find(slug).attention
        full = sum(g.layers * g.kv_elements_per_entry for g in groups if g.window_tokens is None)
        windowed = sum(g.layers * g.kv_elements_per_entry for g in groups if g.window_tokens is not None)
        assert (full, windowed) == (full_elements, windowed_elements)

    @pytest.mark.parametrize(
        ("slug", "elements"),
        [
            # 21 x 128 + 20 x 4 + 21 x 32 and 30 x 128 + 31 x 4 + 30 x 32: a 512-wide latent for 4 or 128
            # tokens, a 128-wide indexer key for 4 tokens
            ("deepseek-v4-flash", 3_440),
            ("deepseek-v4-pro", 4_924),
        ],
    )
    def test_elements_a_token_of_compressed_attention(self, slug: str, elements: int) -> None:
        groups = [group for group in load_models().find(slug).attention if group.kind == "compressed"]
        indexed = [group for group in groups if group.kv_extra_bytes_per_entry]
        latents = sum(g.layers * g.kv_elements_per_entry / g.tokens_per_entry for g in groups)
        keys = sum(g.layers * 128 / g.tokens_per_entry for g in indexed)
        assert latents + keys == elements
        assert {group.kv_extra_bytes_per_entry for group in indexed} == {128 + 4.0}
        assert {(group.recent_tokens, group.recent_elements_per_token) for group in groups} == {(128, 512)}

    @pytest.mark.parametrize(
        ("slug", "state"),
        [
            ("qwen3-6-27b", 153_944_064),
            ("qwen3-6-35b-a3b", 64_389_120),
            ("nemotron-3-nano-30b-a3b", 49_082_368),
            ("nemotron-3-super-120b-a12b", 170_229_760),
            ("nemotron-3-ultra-550b-a55b", 407_961_600),
            # 45 * (64 * 128 * 128 * 4 + (2 * 16 * 128 + 64 * 128) * 3 * 2)
            ("qwen3-5-397b-a17b", 192_061_440),
        ],
    )
    def test_state_of_a_session(self, slug: str, state: int) -> None:
        assert state_bytes(load_models().find(slug).attention) == state


class TestBounds:
    def test_paged_holds_the_whole_context_in_every_layer(self) -> None:
        assert kv_bytes(WINDOWED, 10_000, 2) == 18 * (128 + 10_000) * 1024 * 2
        assert kv_bytes(WINDOWED, 10_000, 2, paged=True) == 36 * 10_000 * 1024 * 2

    def test_a_page_holds_the_state_of_one_layer(self) -> None:
        """Page = state + at most 16 tokens; 45 states padded to it, 15 attention layers waste one each."""
        page = 4_268_032 + 16 * 1024 * 2
        expected = 45 * (page - 4_268_032) + 15 * page
        assert page_padding_bytes(HYBRID, 2) == expected
        ideal = session_bytes_on_rank(HYBRID, 10_000, 2)
        assert session_bytes_on_rank(HYBRID, 10_000, 2, paged=True) == ideal + expected

    def test_no_padding_without_state_layers(self) -> None:
        assert page_padding_bytes(WINDOWED, 2, 8) == 0
        assert page_padding_bytes(LATENT, 2, 8) == 0

    def test_states_are_split_and_not_copied(self) -> None:
        assert state_bytes(HYBRID, 8) == state_bytes(HYBRID)

    def test_a_compressor_state_is_copied(self) -> None:
        compressed = load_models().find("deepseek-v4-flash").attention
        assert state_bytes(compressed) == 21 * 81_920 + 20 * 524_288
        assert state_bytes(compressed, 4) == 4 * state_bytes(compressed)

    def test_least_gpus(self) -> None:
        """140e9 bytes: one 80e9 GPU is too small, and two less 15 % are, too; none may be left with no byte."""
        assert least_gpus_that_fit(140e9, 80e9) == 2
        assert least_gpus_that_fit(140e9, 80e9 * 0.85) == 4
        assert least_gpus_that_fit(weights_bytes_per_rank(0.0, 640e9, 8), 80e9) == 2
        assert least_gpus_that_fit(16e9, 80e9) == 1


class TestP95:
    def test_without_spread_it_is_the_mean(self) -> None:
        session = kv_bytes(LLAMA_70B, 16_000, 2)
        assert sessions_p95_per_rank(500e9, session, 0.0) == 95
        assert sessions_p95_per_rank(95.0 * session, session, 0.0) == 95

    @given(
        left=st.floats(1e6, 1e13),
        session=st.floats(1e6, 1e11),
        spread=st.floats(0.0, 1e11),
    )
    def test_is_the_largest_number_that_fits(self, left: float, session: float, spread: float) -> None:
        def needed(n: float) -> float:
            return n * (session + 1.64 * spread / math.sqrt(n)) if n else 0.0

        sessions = sessions_p95_per_rank(left, session, spread)
        assert needed(sessions) <= left * (1 + 1e-6)
        assert needed(sessions + 1) > left * (1 - 1e-6)

    def test_slope_of_windows(self) -> None:
        full = 18 * 1024 * 2
        assert kv_slope_bytes_per_token(WINDOWED, 10_000.0, 2) == full
        assert kv_slope_bytes_per_token(WINDOWED, 50.0, 2) == 2 * full
        assert kv_slope_bytes_per_token(WINDOWED, 10_000.0, 2, paged=True) == 2 * full

    def test_nothing_left_gives_none(self) -> None:
        assert sessions_p95_per_rank(-1e9, 1e9, 1e8) == 0
        assert max_sessions(-1e9, 1e9, 4) == 0


class TestAttentionWork:
    def test_full_attention(self) -> None:
        """model.md 3: 4 * layers * heads * head_dim * new * (cached + new/2)."""
        assert attention_flops(LLAMA_70B, 33_024, 2_128) == 4 * 80 * 64 * 128 * 2_128 * (33_024 + 1_064)

    @pytest.mark.parametrize(
        ("window", "cached", "new"), [(None, 0, 50), (None, 7, 9), (10, 0, 5), (10, 4, 20), (10, 30, 5), (1, 0, 4)]
    )
    def test_pairs_are_the_sum_over_tokens(self, window: int | None, cached: int, new: int) -> None:
        """The continuous sum lies within half a key a token of the sum over whole tokens."""
        counted = sum(min(position + 1, window or position + 1) for position in range(cached, cached + new))
        assert attention_pair_sum(window, cached, new) == pytest.approx(counted, abs=new / 2)

    @pytest.mark.parametrize(("cached", "new"), [(0, 5), (0, 25), (3, 30), (19, 2)])
    def test_chunks_start_again(self, cached: int, new: int) -> None:
        counted = sum(position % 10 + 1 for position in range(cached, cached + new))
        assert attention_pair_sum(10, cached, new, chunked=True) == pytest.approx(counted, abs=new / 2)

    def test_windows_are_respected(self) -> None:
        pairs = 128 * 128 / 2 + (10_000 - 128) * 128 + 10_000 * 10_000 / 2
        assert attention_flops(WINDOWED, 0, 10_000) == 18 * 16_384 * pairs

    def test_a_sparse_indexer_reads_every_key_and_attends_to_few(self) -> None:
        """DeepSeek-V3.2: top 2,048 of the context, 64 indexer heads of 128."""
        (group,) = load_models().find("deepseek-v3-2").attention
        cached, new = 50_000, 1_000
        attended = 2 * 128 * (192 + 128) * 2_048 * new
        indexed = 2 * 64 * 128 * new * (cached + new / 2)
        assert attention_flops([group], cached, new) == 61 * (attended + indexed)
        assert kv_read_bytes_per_gpu([group], 50_000, 2, tp=1) == 61 * (2_048 * 576 * 2 + 50_000 * 132)

    def test_compression_divides_the_keys(self) -> None:
        coarse = next(g for g in load_models().find("deepseek-v4-flash").attention if g.tokens_per_entry == 128)
        cached, new = 100_000, 1_000
        pairs = new * (cached + new / 2) / 128 + new * 128
        assert attention_flops([coarse], cached, new) == pytest.approx(20 * 4 * 64 * 512 * pairs)

    def test_state_layers_are_read_and_written(self) -> None:
        assert kv_read_bytes_per_gpu(HYBRID, 1_000, 2, tp=1) == 45 * 2 * 4_268_032 + 15 * 1_000 * 2_048
        assert attention_flops(HYBRID[:1], 10_000, 1_000) == 0


def attention_groups() -> st.SearchStrategy[AttentionGroup]:
    return st.builds(
        AttentionGroup,
        kind=st.just("gqa"),
        layers=st.integers(1, 120),
        kv_heads=st.sampled_from([1, 2, 4, 8, 16, 64]),
        kv_elements_per_entry=st.integers(0, 4096),
        tokens_per_entry=st.sampled_from([1, 4, 128]),
        kv_extra_bytes_per_entry=st.sampled_from([0.0, 132.0]),
        window_tokens=st.none() | st.integers(1, 10_000),
        recent_tokens=st.integers(0, 256),
        recent_elements_per_token=st.integers(0, 512),
        state_bytes=st.integers(0, 5_000_000),
        flops_per_pair=st.integers(0, 100_000),
    )


GROUPS = st.lists(attention_groups(), min_size=1, max_size=4)
TOKENS = st.floats(0.0, 1e6)
TP = st.sampled_from([1, 2, 4, 8, 16, 32])
BYTES = st.sampled_from([0.5625, 1.0, 2.0])


class TestProperties:
    @given(groups=GROUPS, tokens=TOKENS, element=BYTES, tp=TP, paged=st.booleans())
    def test_more_tp_never_lowers_a_ranks_kv(
        self, groups: list[AttentionGroup], tokens: float, element: float, tp: int, paged: bool
    ) -> None:
        less = session_bytes_on_rank(groups, tokens, element, tp, paged=paged)
        assert session_bytes_on_rank(groups, tokens, element, 2 * tp, paged=paged) >= less

    @given(groups=GROUPS, tokens=TOKENS, element=BYTES, tp=TP)
    def test_more_tp_never_raises_a_gpus_share(
        self, groups: list[AttentionGroup], tokens: float, element: float, tp: int
    ) -> None:
        share = kv_bytes_on_rank(groups, tokens, element, tp) / tp
        assert kv_bytes_on_rank(groups, tokens, element, 2 * tp) / (2 * tp) <= share * (1 + 1e-12)

    @given(groups=GROUPS, tokens=TOKENS, more=TOKENS, element=BYTES, paged=st.booleans())
    def test_more_tokens_never_take_less(
        self, groups: list[AttentionGroup], tokens: float, more: float, element: float, paged: bool
    ) -> None:
        assert kv_bytes(groups, tokens + more, element, paged=paged) >= kv_bytes(groups, tokens, element, paged=paged)

    @given(groups=GROUPS, tokens=TOKENS, element=BYTES, tp=TP)
    def test_ideal_is_never_above_paged(
        self, groups: list[AttentionGroup], tokens: float, element: float, tp: int
    ) -> None:
        ideal = session_bytes_on_rank(groups, tokens, element, tp)
        assert ideal <= session_bytes_on_rank(groups, tokens, element, tp, paged=True)

    @given(left=st.floats(0, 1e13), more=st.floats(0, 1e13), session=st.floats(1.0, 1e11), dp=TP)
    def test_more_memory_never_lowers_capacity(self, left: float, more: float, session: float, dp: int) -> None:
        assert max_sessions(left + more, session, dp) >= max_sessions(left, session, dp)

    @given(cached=TOKENS, first=TOKENS, second=TOKENS, window=st.none() | st.floats(1, 1e5))
    def test_pairs_of_two_prefills_add_up(
        self, cached: float, first: float, second: float, window: float | None
    ) -> None:
        once = attention_pair_sum(window, cached, first + second)
        twice = attention_pair_sum(window, cached, first) + attention_pair_sum(window, cached + first, second)
        assert once == pytest.approx(twice, rel=1e-6, abs=1.0)

    @given(groups=GROUPS, element=BYTES)
    def test_arrays_and_expressions_agree_with_floats(self, groups: list[AttentionGroup], element: float) -> None:
        tokens, tp = [100.0, 5_000.0, 123_456.0], [1.0, 8.0, 16.0]
        floats = [
            (
                float(session_bytes_on_rank(groups, t, element, p, paged=True)),
                float(kv_read_bytes_per_gpu(groups, t, element, p)),
                float(attention_flops(groups, t, 1_000.0)),
                float(sessions_p95_per_rank(1e12, 1e9, t)),
            )
            for t, p in zip(tokens, tp, strict=True)
        ]
        array_t, array_p = np.array(tokens), np.array(tp)
        arrays = np.stack(
            [
                session_bytes_on_rank(groups, array_t, element, array_p, paged=True),
                kv_read_bytes_per_gpu(groups, array_t, element, array_p),
                attention_flops(groups, array_t, 1_000.0),
                sessions_p95_per_rank(1e12, 1e9, array_t),
            ],
            axis=1,
        )
        frame = pl.DataFrame({"t": tokens, "p": tp}).select(
            session=session_bytes_on_rank(groups, pl.col("t"), element, pl.col("p"), paged=True),
            read=kv_read_bytes_per_gpu(groups, pl.col("t"), element, pl.col("p")),
            flops=attention_flops(groups, pl.col("t"), 1_000.0),
            p95=sessions_p95_per_rank(1e12, 1e9, pl.col("t")),
        )
        assert arrays.tolist() == pytest.approx(np.array(floats), rel=1e-12)
        assert np.array(frame.rows()) == pytest.approx(np.array(floats), rel=1e-12)


def qwen3_5_4b() -> tuple[AttentionGroup, ...]:
    """24 linear layers of 32 value heads, 8 of attention with 4 KV heads of 256."""
    state = 32 * 128 * 128 * 4 + (2 * 16 * 128 + 32 * 128) * 3 * 2
    linear = AttentionGroup(
        kind="linear", layers=24, kv_heads=32, kv_elements_per_entry=0, state_bytes=state, flops_per_pair=0
    )
    return linear, AttentionGroup(kind="gqa", layers=8, kv_heads=4, kv_elements_per_entry=2048, flops_per_pair=1)


def test_blocks_of_a_hybrid_prefix_cache_hold_a_layers_state() -> None:
    """As vLLM logs them; the state of a page is pinned by each session."""
    groups = qwen3_5_4b()
    assert prefix_block_tokens(groups, 2.0) == 528  # 2,146,304 bytes of state over 4,096 a token are 524
    assert prefix_block_tokens(groups, 1.0) == 1_056
    assert session_floor_bytes(groups, 2.0) == 32 * 528 * 4_096
    assert prefix_block_tokens(groups, 2.0, tp=4) == 528  # state and heads are split alike
    assert prefix_block_tokens(groups, 2.0, tp=8) == 272  # the heads no longer: 268,288 bytes over 1,024
    super_120b = load_models().find("nemotron-3-super-120b-a12b").attention
    assert prefix_block_tokens(super_120b, 1.0) == 8_320
    assert prefix_block_tokens(load_models().find("qwen3-32b").attention, 2.0) is None
    assert session_floor_bytes(load_models().find("qwen3-32b").attention, 2.0) == 0
    figures = model_figures(load_models().find("kimi-k3"), 1_000, "bf16", 8, 1)
    assert figures["prefix_block_tokens"] % 64 == 0
    assert figures["session_floor_bytes"] == 8 * 93 * figures["prefix_block_tokens"] * 576 * 2
