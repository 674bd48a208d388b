"""The numbers that the article and docs/model.md print, each by the equation that it comes from.

"Step n" and "Eq. n" are those of the article (Feiyue Zhai, 2026-04-17); "model.md n" is a section of that page,
which says where the article disagrees with itself.
"""

import math

import numpy as np
import pytest

from pipelines.reading.catalogues import load_models, load_scenarios
from schemas.scenarios import Scenario
from transforms.equations import closed_loop, context, disaggregation, engine_steps, roofline, transfer

# 8 x H100 and a model of 70 billion parameters in 16 bits: the article's hardware (Step 8, 5.4).
GPUS, FLOPS_PER_S, HBM_BYTES_PER_S = 8, 989e12, 3.35e12
PARAMETERS, WEIGHT_BYTES = 70e9, 140e9


class TestContexts:
    """Step 4, model.md 2."""

    @pytest.mark.parametrize(
        ("slug", "second", "mean", "peak"),
        [
            # L0 + dL + r*OSL; L0 + (N-1)/2 * (dL + r*OSL); L0 + (N-1) * (dL + r*OSL) + OSL
            ("code-agent", 16_628, 18_198, 20_524),
            ("research-agent", 27_064, 45_448, 66_960),
            ("deep-reasoning", 36_000, 70_000, 112_096),
        ],
    )
    def test_of_the_articles_scenarios(self, slug: str, second: float, mean: float, peak: float) -> None:
        (scenario,) = load_scenarios([slug])
        turns = context.turn_profile(scenario)
        assert len(turns.context) == scenario.turns
        assert turns.context[0] == scenario.initial_prompt_tokens
        assert turns.context[1] == second
        assert turns.context.mean() == mean
        assert turns.context[-1] + scenario.output_tokens_per_turn == peak

    def test_final_context_is_one_turn_further(self) -> None:
        """Step 8 prints ~21K: 16,000 + 8 * 628."""
        assert context.context_at_turn(9, 16_000, 500, 128) == 21_024

    def test_prefills_of_hits_and_misses(self) -> None:
        """model.md 2: a hit computes n1 or dL, a miss L(j) - S; without the output in its pool dL + r*OSL."""
        scenario = Scenario(
            slug="a",
            turns=3,
            think_time_s=1,
            initial_prompt_tokens=1_000,
            new_tokens_per_turn=200,
            output_tokens_per_turn=100,
            output_retention_fraction=0.5,
            shared_prefix_tokens=400,
            first_turn_new_tokens=300,
            cache={"hit_rate": 0.5},  # type: ignore[arg-type]
        )
        aggregated = context.turn_profile(scenario)
        assert aggregated.context.tolist() == [1_000, 1_250, 1_500]
        assert aggregated.new_on_hit.tolist() == [300, 200, 200]
        assert aggregated.new_on_miss.tolist() == [600, 850, 1_100]
        split = context.turn_profile(scenario, prefill_sees_output=False)
        assert split.new_on_hit.tolist() == [300, 250, 250]
        assert split.new_on_miss.tolist() == [600, 850, 1_100]

    def test_first_turn_computes_what_is_not_shared_unless_said(self) -> None:
        scenario = Scenario(
            slug="a",
            turns=1,
            think_time_s=0,
            initial_prompt_tokens=1_000,
            new_tokens_per_turn=0,
            output_tokens_per_turn=100,
            shared_prefix_tokens=400,
            cache={"hit_rate": 1.0},  # type: ignore[arg-type]
        )
        assert context.turn_profile(scenario).new_on_hit.tolist() == [600]

    @pytest.mark.parametrize("turns", [1.0, 1.5, 7.3, 8.0])
    def test_a_mean_number_of_turns_keeps_mean_and_last_context(self, turns: float) -> None:
        (scenario,) = load_scenarios(["code-agent"])
        profile = context.turn_profile(scenario.model_copy(update={"turns": turns}))
        assert profile.context.mean() == pytest.approx(16_000 + (turns - 1) / 2 * 628, rel=1e-12)
        assert profile.context[-1] == pytest.approx(16_000 + (turns - 1) * 628, rel=1e-12)

    def test_spread_of_evenly_spaced_turns(self) -> None:
        """Standard deviation of 1..N is sqrt((N^2 - 1)/12)."""
        (scenario,) = load_scenarios(["code-agent"])
        assert context.turn_profile(scenario).context_sd == pytest.approx(628 * np.sqrt(63 / 12))


class TestRoofline:
    """Eqs. 1-3c, model.md 3."""

    def test_one_read_of_the_weights_takes_5_2239_ms(self) -> None:
        assert 1e3 * roofline.weight_read_s(WEIGHT_BYTES, GPUS, HBM_BYTES_PER_S) == pytest.approx(5.2239, abs=5e-5)

    def test_tpot_of_one_request_without_context_is_14_366_ms(self) -> None:
        """The article prints 13.1: without its own 1.10."""
        weights = roofline.weight_read_s(WEIGHT_BYTES, GPUS, HBM_BYTES_PER_S)
        compute = roofline.decode_compute_s(PARAMETERS, 1, GPUS, FLOPS_PER_S)
        tpot_ms = 1e3 * roofline.tpot_s(weights, 0.0, compute)
        assert tpot_ms == pytest.approx(14.366, abs=5e-4)
        assert tpot_ms / roofline.ELEMENTWISE_OVERHEAD == pytest.approx(13.06, abs=5e-3)

    @pytest.mark.parametrize(("tokens", "milliseconds"), [(2_128, 37.65), (46_000, 814.0)])
    def test_prefill_at_eta_1(self, tokens: float, milliseconds: float) -> None:
        """Step 5 prints 38 and 800 ms, both without eta; Eq. 2 has 0.65."""
        eq_2 = 1e3 * roofline.prefill_s(PARAMETERS, tokens, GPUS, FLOPS_PER_S)
        assert eq_2 * 0.65 == pytest.approx(milliseconds, rel=2e-4)

    def test_the_etas_are_the_articles(self) -> None:
        assert (roofline.ETA_PREFILL, roofline.ETA_DECODE, roofline.ELEMENTWISE_OVERHEAD) == (0.65, 0.40, 1.10)

    def test_decode_turns_compute_bound(self) -> None:
        """Eq. 3: the larger of reading with its overhead and computing, over eta."""
        assert roofline.tpot_s(0.003, 0.002, 0.0054) == pytest.approx(0.0055 / 0.40)
        assert roofline.tpot_s(0.003, 0.002, 0.0056) == pytest.approx(0.0056 / 0.40)

    def test_reading_the_kv_of_a_batch(self) -> None:
        """Eq. 3b: 32 contexts of 16,000 tokens, 327,680 B a token on 8 GPUs with a head each: 6.2602 ms."""
        per_gpu = 16_000 * 327_680 / 8
        assert 1e3 * roofline.kv_read_s(32, per_gpu, HBM_BYTES_PER_S) == pytest.approx(6.2602, abs=5e-5)

    def test_compute_of_a_batch(self) -> None:
        """Eq. 3c: 2 * 70e9 * 256 / (8 * 989e12) = 4.5298 ms."""
        assert 1e3 * roofline.decode_compute_s(PARAMETERS, 256, GPUS, FLOPS_PER_S) == pytest.approx(4.5298, abs=5e-5)

    def test_latency_counts_one_step_less_than_tokens(self) -> None:
        """model.md 10: R = TTFT + TPOT * (OSL - 1)."""
        assert roofline.latency_s(0.5, 0.01, 128) == pytest.approx(1.77)


class TestMixtureOfExperts:
    """model.md 9."""

    def test_one_expert_of_kimi_k2_5_over_all_layers(self) -> None:
        """44M is one layer's expert (3 * 7168 * 2048); 60 layers have 2.642B, 8 of them 21.1B of 32B active."""
        kimi = load_models().get("kimi-k2-5")
        assert kimi.moe is not None
        assert kimi.parameters_per_expert == 60 * 3 * 7_168 * 2_048 == 2_642_411_520
        assert kimi.moe.experts_per_token * kimi.parameters_per_expert == pytest.approx(21.1e9, rel=2e-3)
        assert kimi.parameters_active == pytest.approx(32e9, rel=0.03)

    def test_deepseek_v3(self) -> None:
        deepseek = load_models().get("deepseek-v3")
        assert deepseek.parameters_total == 671_026_419_200
        assert deepseek.parameters_active == 37_552_297_472

    @pytest.mark.parametrize(("batch", "active"), [(1, 8), (31, 248), (32, 256), (1_000, 256)])
    def test_active_experts_stop_at_all_of_them(self, batch: int, active: int) -> None:
        assert roofline.active_experts(batch, 8, 256) == active

    def test_reading_experts(self) -> None:
        """Eq. 3a: 64 active experts of 2.642e9 bytes on 8 GPUs."""
        seconds = roofline.expert_read_s(64, 2.642e9, 8, HBM_BYTES_PER_S)
        assert seconds == pytest.approx(64 / 8 * 2.642e9 / 3.35e12)


class TestClosedLoop:
    """Steps 1-3 and 9, model.md 5.4 and 5.5."""

    @pytest.mark.parametrize(("pause_s", "turns_per_s"), [(2, 10.67), (10, 2.91)])
    def test_step_2(self, pause_s: float, turns_per_s: float) -> None:
        """C = 32, R = 1 s."""
        assert closed_loop.turns_per_s(32, 1.0, pause_s) == pytest.approx(turns_per_s, abs=5e-3)

    @pytest.mark.parametrize(
        ("pause_s", "rho", "article", "arrival"),
        # arrival: 1 + 31/rho
        [(0, 1.0, 32, 32), (0.5, 0.8, 40, 39.75), (2, 0.5, 64, 63), (10, 0.1667, 192, 187)],
    )
    def test_step_3(self, pause_s: float, rho: float, article: float, arrival: float) -> None:
        """B = 32, R = 2 s."""
        activity = closed_loop.activity_fraction(2.0, pause_s)
        assert activity == pytest.approx(rho, abs=5e-5)
        assert closed_loop.sessions_that_fill(32.0, activity, 1, "article") == pytest.approx(article)
        assert closed_loop.sessions_that_fill(32.0, activity, 1, "arrival") == pytest.approx(arrival)

    def test_stations_share_the_requests(self) -> None:
        """C = s * (1 + (b - 1)/rho): 4 ranks of 8 requests at rho 0.5."""
        assert closed_loop.in_flight_per_station(16.0, 2.0, 4) == 8
        assert closed_loop.sessions_that_fill(8.0, 0.5, 4) == 4 * (1 + 7 / 0.5)

    def test_below_one_request_a_session_meets_nobody(self) -> None:
        assert closed_loop.sessions_that_fill(0.5, 0.1, 4) == 2.0

    def test_task_time_has_a_pause_after_the_last_turn(self) -> None:
        """T_task = N * (R + Z)."""
        assert closed_loop.task_time_s(8, 1.5, 0.5) == 16.0

    def test_step_9_as_printed(self) -> None:
        """X_serving / N * rho."""
        assert closed_loop.tasks_per_s_step9(16.0, 8, 0.25) == 0.5


class TestEngineSteps:
    """model.md 5.2: the schedulers of AIConfigurator."""

    @pytest.mark.parametrize(
        ("batch", "prefills", "steps"), [(1, 1, 1), (1, 4, 1), (8, 1, 8), (8, 2, 4), (9, 2, 5), (9, 0.5, 18)]
    )
    def test_mixed_steps(self, batch: float, prefills: float, steps: float) -> None:
        """n_mix = ceil(B / nc); one for a batch of one."""
        assert engine_steps.mixed_steps(batch, prefills) == steps

    def test_mixed_steps_do_not_count_rounding(self) -> None:
        """ctx_tokens/isl = 8192/4096 is 2 up to rounding: 6 requests need 3 steps."""
        assert engine_steps.mixed_steps(6.0, 2.0 - 4e-16) == 3

    @pytest.mark.parametrize(("n_mix", "q"), [(1, 1.9), (3, 2.0), (23, 3.0), (43, 4.0), (500, 4.0)])
    def test_queue_factor_of_trtllm_and_sglang(self, n_mix: float, q: float) -> None:
        """q = min(2 + (n_mix - 3)/20, 4)."""
        assert engine_steps.ttft_queue_factor(False, 16, n_mix) == pytest.approx(q)

    @pytest.mark.parametrize(("batch", "q"), [(1, 1.0), (16, 1.5), (256, 2.0), (1_024, 2.0)])
    def test_queue_factor_of_vllm(self, batch: float, q: float) -> None:
        """q = min(1 + log2(B)/8, 2)."""
        assert engine_steps.ttft_queue_factor(True, batch, batch) == pytest.approx(q)

    @pytest.mark.parametrize(
        ("vllm", "batch", "n_mix", "m"),
        [
            (False, 1, 1, 0),  # a batch of one waits for nobody's prefill
            (False, 3, 3, 1),
            (False, 20, 20, 17),
            (False, 200, 128, 128),  # prefill-bound: n_mix >= OSL
            (True, 20, 20, 20),
        ],
    )
    def test_mixed_steps_within_tpot(self, vllm: bool, batch: float, n_mix: float, m: float) -> None:
        """m = max(1, n_mix - 3) of TRT-LLM and SGLang, n_mix of vLLM; OSL = 128."""
        assert engine_steps.tpot_mixed_weight(vllm, batch, n_mix, 128) == m

    @pytest.mark.parametrize(("n_mix", "n_dec"), [(1, 127), (100, 28), (128, 0), (300, 0)])
    def test_decode_only_steps(self, n_mix: float, n_dec: float) -> None:
        assert engine_steps.decode_only_steps(n_mix, 128) == n_dec

    def test_dispatch_of_vllm(self) -> None:
        """ttft = (t_mix + 0.8 ms * layers) * q: 32 layers, q = 2."""
        dispatch = engine_steps.VLLM_DISPATCH_MS_PER_LAYER * 32
        assert engine_steps.ttft(100.0, 2.0, dispatch) == pytest.approx(251.2)
        assert engine_steps.mixed_step_of_row(251.2, 2.0, dispatch) == pytest.approx(100.0)

    def test_a_cycle_by_hand(self) -> None:
        """8 requests a rank, 2 ranks, OSL 100: 8 mixed steps of 50 ms, 92 decode steps of 10 ms: 1.32 s a cycle."""
        n_mix = engine_steps.mixed_steps(8, 1)
        n_dec = engine_steps.decode_only_steps(n_mix, 100)
        m = engine_steps.tpot_mixed_weight(False, 8, n_mix, 100)
        assert engine_steps.requests_per_s(8, 2, n_mix, n_dec, 50.0, 10.0) == pytest.approx(16 / 1.32)
        tpot = engine_steps.tpot(50.0, 10.0, m, n_dec)
        assert tpot == pytest.approx((5 * 50 + 92 * 10) / 97)
        assert engine_steps.decode_step_of_row(tpot, 50.0, m, n_dec) == pytest.approx(10.0)

    def test_one_output_token_has_no_tpot(self) -> None:
        assert engine_steps.tpot(50.0, 10.0, 0.0, 0.0) == 0.0


class TestTransfer:
    """model.md 5.2: physics is added, overheads are kept."""

    def test_constants(self) -> None:
        assert (transfer.KV_READ_EFFICIENCY, transfer.ATTENTION_EFFICIENCY) == (0.8, 0.53)
        assert transfer.FIXED_SHARE_AT_MOST == 0.6

    def test_reading_contexts(self) -> None:
        """One kernel: peak time / 0.93, and up to 10 us for a read that does not fill the memory system."""
        assert transfer.kernel_read_ms(0.0) == 0.0
        assert transfer.kernel_read_ms(0.015) == pytest.approx(0.015 / 0.93 + 0.010 * (1 - math.exp(-1)))
        assert transfer.kernel_read_ms(1.0) == pytest.approx(1 / 0.93 + 0.010)

    def test_partial_overlap(self) -> None:
        assert transfer.overlapped(3.0, 4.0) == 5.0

    @pytest.mark.parametrize(("peak", "slower"), [(989e12, 1.27), (2250e12, 1.64)])
    def test_small_heads(self, peak: float, slower: float) -> None:
        """Heads of 64 against 128: sqrt(1 + x^2) of x = F / (4 * d * 3.9e12), twice as large at 64.

        Measured kernels (AIConfigurator 0.12.0, context_attention_perf, TensorRT-LLM, 8,192 to 16,384 tokens):
        0.51 / 0.42 of peak on H100 and 0.46 / 0.30 on B200, 1.2 and 1.5 times.
        """
        x = peak / (4 * 128 * 3.9e12)
        exact = math.sqrt((1 + 4 * x * x) / (1 + x * x))
        assert transfer.head_size_slowdown(peak, 64) == pytest.approx(exact) == pytest.approx(slower, rel=0.01)
        assert transfer.head_size_slowdown(peak, 128) == transfer.head_size_slowdown(peak, None) == 1.0

    def test_attention(self) -> None:
        assert transfer.attention_ms(1e15, 8, 989e12) == pytest.approx(1e3 * 1e15 / (8 * 989e12 * 0.53))

    @pytest.mark.parametrize(("linear", "weights", "fixed"), [(100, 20, 20), (100, 90, 60), (100, -5, 0)])
    def test_fixed_part(self, linear: float, weights: float, fixed: float) -> None:
        """f = min(W, 0.6 * lin); W that the row makes negative is none."""
        assert transfer.fixed_part_ms(linear, weights) == fixed

    def test_decode_step(self) -> None:
        """t_dec' = t_dec + KVt(B, L') - KVt(B, L), not below the new reading alone; unchanged at the same context."""
        assert transfer.moved_decode_step_ms(20.0, 5.0, 9.0) == 24.0
        assert transfer.moved_decode_step_ms(6.0, 5.0, 1.0) == 2.0
        assert transfer.moved_decode_step_ms(4.0, 5.0, 1.0) == pytest.approx(0.8)
        assert transfer.moved_decode_step_ms(4.0, 5.0, 5.0) == 4.0

    def test_prefill(self) -> None:
        """f + (lin - f) * new'/new."""
        assert 20.0 + transfer.growth_ms_per_token(100.0, 20.0, 4_000) * 500 == 20 + 80 / 8


class TestDisaggregation:
    """model.md 5.2: pools of AIConfigurator."""

    def test_constants(self) -> None:
        pools = disaggregation
        assert (pools.PREFILL_POOL_SHARE, pools.DECODE_POOL_SHARE, pools.TTFT_QUEUE_FACTOR) == (0.9, 0.92, 1.8)

    def test_pools_are_matched(self) -> None:
        """2 workers of 4 prefills in 500 ms: 16/s; 3 workers of 32 slots at 101 steps of 10 ms: 95.05/s."""
        prefill = disaggregation.prefill_pool_rate(2, 4, disaggregation.prefill_of_row_ms(900.0))
        decode = disaggregation.decode_pool_rate(3, 32, 10.0, 102)
        assert prefill == pytest.approx(16.0)
        assert decode == pytest.approx(96 / 1.01)
        assert disaggregation.matched_rate(prefill, decode) == pytest.approx(0.9 * 16)
        assert disaggregation.matched_rate(1e6, decode) == pytest.approx(0.92 * 96 / 1.01)

    def test_one_output_token_counts_as_a_step(self) -> None:
        assert disaggregation.decode_pool_rate(1, 1, 10.0, 1) == 100.0

    def test_handover(self) -> None:
        """1 GB over 4 links of 50 GB/s: 5 ms."""
        assert disaggregation.handover_ms(1e9, 4, 50e9) == pytest.approx(5.0)
