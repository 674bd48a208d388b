"""Operating points: a fixed number of sessions on the scenario's GPUs (Step 7, model.md 5.7).

The roofline and the article's damped iteration are written out here from the article, without the equations of
``transforms``.
"""

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

from schemas.caches import FixedCache
from schemas.hardware import Hardware
from schemas.models import ModelSpec
from schemas.options import ClosedLoop, RooflinePreset
from schemas.scenarios import Scenario
from tests.transforms.factory import (
    MIXED_BACKENDS,
    article_scenario,
    hardware,
    model,
    roofline_points,
    setting,
    shipped_points,
    solved,
)
from transforms.agent_points.carry import carry_points
from transforms.configurations import CONFIGURATION

Latency = Callable[[float], float]
CURVE = (*CONFIGURATION, "context_requests_per_step")
BF16, FP8 = 2, 1


def article_weights(spec: ModelSpec, dtype: str) -> tuple[float, float]:
    """Bytes of everything but the experts, and of all experts; embeddings, norms and router stay in 16 bits."""
    parts = spec.parameters
    linear = parts.attention + parts.dense_mlp + parts.shared_experts
    rest = parts.embedding + parts.output_head + parts.norms + parts.router
    stored = {"bf16": BF16, "fp8": FP8, "fp8-block": 1 + 4 / 128**2}[dtype]
    router_bytes = spec.stored_bytes.router - BF16 * parts.router  # kept wider than 16 bits in some checkpoints
    return linear * stored + rest * BF16 + router_bytes, parts.routed_experts * stored


def article_latency(scenario: Scenario, spec: ModelSpec, gpu: Hardware, point: dict[str, object]) -> Latency:
    """R(B) of Eqs. 1-3c in seconds, B requests in flight at a rank."""
    tp, dp, dtype = int(str(point["tp"])), int(str(point["dp"])), str(point["weight_dtype"])
    flops = {"bf16": gpu.flops_per_s.bf16, "fp8": gpu.flops_per_s.fp8, "fp8-block": gpu.flops_per_s.fp8}[dtype]
    assert flops is not None
    contexts = [
        scenario.initial_prompt_tokens + turn * scenario.context_growth_tokens for turn in range(int(scenario.turns))
    ]
    hit = scenario.cache_hit_rate
    new = [hit * scenario.new_tokens_per_turn + (1 - hit) * context for context in contexts]
    active = spec.parameters_active
    ttft = 2 * active * float(np.mean(new)) / (tp * dp * flops) / 0.65
    context = float(np.mean(contexts)) + scenario.output_tokens_per_turn / 2
    (group,) = spec.attention
    kappa = group.layers * group.kv_elements_per_entry * BF16
    weights, experts = article_weights(spec, dtype)
    bandwidth = gpu.hbm_bandwidth_bytes_per_s

    def latency_s(batch: float) -> float:
        t_weight = weights / (tp * bandwidth)
        if spec.moe is not None:
            distinct = min(batch * dp * spec.moe.experts_per_token, spec.moe.experts)
            t_weight += distinct / (tp * dp) * experts / spec.moe.experts / bandwidth
        t_kv = batch * context * kappa / (min(tp, group.kv_heads) * bandwidth)
        t_compute = 2 * active * batch * dp / (tp * dp * flops)
        tpot = max((t_weight + t_kv) * 1.10, t_compute) / 0.40
        return ttft + tpot * (scenario.output_tokens_per_turn - 1)

    return latency_s


def damped_iteration(latency_s: Latency, sessions: float, pause_s: float) -> float:
    """Step 7, Eq. 4: B <- 0.6 * B + 0.4 * C_eff * rho(B)."""
    batch = sessions
    for _ in range(2_000):
        rho = latency_s(batch) / (latency_s(batch) + pause_s)
        batch = 0.6 * batch + 0.4 * sessions * rho
    return batch


def arrival_iteration(latency_s: Latency, sessions: float, pause_s: float) -> float:
    """B <- 0.6 * B + 0.4 * (1 + (C_eff - 1) * rho(B)): a session meets the others only."""
    batch = sessions
    for _ in range(2_000):
        rho = latency_s(batch) / (latency_s(batch) + pause_s)
        batch = 0.6 * batch + 0.4 * (1 + (sessions - 1) * rho)
    return batch


def article_capacity(scenario: Scenario, spec: ModelSpec, gpu: Hardware, point: dict[str, object]) -> int:
    """Eq. 5 with a tenth of the memory kept: sessions at the mean context, by ranks."""
    tp, dp, dtype = int(str(point["tp"])), int(str(point["dp"])), str(point["weight_dtype"])
    weights, experts = article_weights(spec, dtype)
    left = tp * gpu.hbm_bytes * 0.9 - weights - experts / dp
    (group,) = spec.attention
    kappa = group.layers * group.kv_elements_per_entry * BF16 * tp / min(tp, group.kv_heads)
    return max(dp * int(left // (kappa * scenario.mean_context_tokens)), 0)


@pytest.mark.parametrize(
    ("gpu_slug", "spec_slug", "scenario"),
    [
        ("h100-sxm", "llama-3-1-70b", article_scenario("code-agent")),
        ("h100-sxm", "llama-3-1-70b", article_scenario("research-agent")),
        ("h100-sxm", "llama-3-1-70b", article_scenario("deep-reasoning")),
        ("h200-sxm", "llama-3-1-8b", article_scenario("code-agent", sessions=1_000)),
        ("mi355x", "deepseek-v3", article_scenario("code-agent", sessions=200)),
    ],
    ids=lambda value: value.slug if isinstance(value, Scenario) else value,
)
@pytest.mark.parametrize("closed_loop", ["article", "arrival"])
def test_the_roofline_solves_the_articles_iteration(
    gpu_slug: str, spec_slug: str, scenario: Scenario, closed_loop: ClosedLoop
) -> None:
    gpu, spec = hardware(gpu_slug), model(spec_slug)
    rows = roofline_points(gpu_slug, spec_slug, "article", serving_mode="agg")
    points = solved(rows, setting(gpu, spec, scenario, closed_loop=closed_loop))
    iterate = damped_iteration if closed_loop == "article" else arrival_iteration
    compared = 0
    for point in points.to_dicts():
        wall = article_capacity(scenario, spec, gpu, point)
        assert point["max_sessions"] == wall
        if wall == 0:
            assert point["infeasible_reason"] == "weights_do_not_fit" or point["infeasible_reason"] == "kv_capacity"
            continue
        assert scenario.sessions is not None
        replicas = 8 // point["gpus_per_replica"]
        admitted = min(-(-scenario.sessions // replicas), wall)
        ranks = point["dp"]
        if point["infeasible_reason"] is not None or admitted < ranks:
            continue
        latency_s = article_latency(scenario, spec, gpu, point)
        batch = iterate(latency_s, admitted / ranks, scenario.think_time_s)
        assert point["sessions"] == pytest.approx(admitted, rel=1e-9)
        assert point["turn_latency_ms"] / 1e3 == pytest.approx(latency_s(batch), rel=1e-6)
        in_flight = point["serving_requests_per_s"] * point["turn_latency_ms"] / 1e3
        assert in_flight == pytest.approx(ranks * batch, rel=1e-6)
        if closed_loop == "article":
            # there the mean in flight, C * rho, is B itself
            assert point["in_flight_requests"] == pytest.approx(ranks * batch, rel=1e-6)
        compared += 1
    assert compared >= 3


@pytest.mark.parametrize("closed_loop", ["article", "arrival"])
def test_on_tables_the_loop_closes_on_the_configurations_own_curve(closed_loop: ClosedLoop) -> None:
    """C = s * (1 + (b - 1)/rho) or s * b/rho, and (b, R) lies on the line between two rows of the curve."""
    tables = [
        f"candidates/{table}__isl4000_osl1000__{mode}.csv.gz"
        for table in ("h100_sxm__llama-3.1-70b", "b200_sxm__deepseek-v3")
        for mode in ("agg", "disagg")
    ]
    everything = shipped_points(MIXED_BACKENDS, *tables)
    solutions = 0
    for (gpu, spec), points in everything.group_by("hardware", "model"):
        shared = setting(str(gpu), str(spec), article_scenario(), closed_loop=closed_loop)
        rows = with_in_flight(carry_points(points, shared).filter(~pl.col("interpolated")))
        curves = {key: curve.sort("batch_per_rank", "sessions") for key, curve in rows.group_by(CURVE)}
        operating = with_in_flight(solved(points, shared))
        assert operating.height == len(curves)
        for point in operating.filter("feasible").to_dicts():
            rho = point["turn_latency_ms"] / (point["turn_latency_ms"] + 500)
            b = point["_b"]
            fills = b / rho if closed_loop == "article" else max(b, 1 + (b - 1) / rho)
            assert point["_ranks"] * fills == pytest.approx(point["sessions"], rel=1e-6)
            curve = curves[tuple(point[name] for name in CURVE)]
            assert on_polyline(curve, b, point["turn_latency_ms"], point["sessions"])
            solutions += 1
    assert solutions > 20


def with_in_flight(points: pl.DataFrame) -> pl.DataFrame:
    ranks = pl.coalesce("dp", pl.col("decode_workers") * pl.col("decode_dp"))
    in_flight = pl.col("serving_requests_per_s") * pl.col("turn_latency_ms") / 1e3
    return points.with_columns(_ranks=ranks, _b=in_flight / ranks)


def on_polyline(curve: pl.DataFrame, b: float, latency_ms: float, sessions: float) -> bool:
    known, latencies = curve["_b"].to_list(), curve["turn_latency_ms"].to_list()
    if sessions < curve["sessions"][0]:  # a batch of one serves a lone session as well as it ever will
        return bool(curve["batch_per_rank"][0] <= 1) and latency_ms == pytest.approx(latencies[0])
    for left, right, first, second in zip(known, known[1:], latencies, latencies[1:], strict=False):
        low, high = min(left, right), max(left, right)
        if low * (1 - 1e-9) <= b <= high * (1 + 1e-9):
            share = 0.0 if left == right else (b - left) / (right - left)
            if latency_ms == pytest.approx(first + share * (second - first), rel=1e-6):
                return True
    return False


class TestShares:
    """Replicas share the sessions evenly: floor or ceil of C/replicas each."""

    def points(self, sessions: int, **shape: object) -> dict[str, object]:
        scenario = article_scenario(sessions=sessions)
        shape = {"weight_dtype": "bf16", "tp": 2, **shape}
        rows = roofline_points("h200-sxm", "llama-3-1-70b", "article", **shape)
        (point,) = solved(rows, setting("h200-sxm", "llama-3-1-70b", scenario)).to_dicts()
        return point

    def test_uneven_shares(self) -> None:
        """10 sessions on 4 replicas of 2 GPUs: 3, 3, 2, 2."""
        uneven, of_three, of_two = self.points(10), self.points(12), self.points(8)
        assert (uneven["replicas"], uneven["sessions"]) == (4, 3.0)
        assert uneven["sessions_admitted"] == uneven["sessions_wanted"] == 10.0
        assert uneven["turn_latency_ms"] == of_three["turn_latency_ms"]
        both = 2 * float(str(of_three["turns_per_s"])) + 2 * float(str(of_two["turns_per_s"]))
        assert uneven["cluster_turns_per_s"] == pytest.approx(both, rel=1e-12)
        assert of_three["cluster_turns_per_s"] == pytest.approx(4 * float(str(of_three["turns_per_s"])), rel=1e-12)

    def test_fewer_sessions_than_replicas(self) -> None:
        """3 sessions on 4 replicas: one is idle."""
        point, alone = self.points(3), self.points(4)
        assert (point["replicas"], point["sessions"], point["sessions_admitted"]) == (4, 1.0, 3.0)
        assert point["cluster_turns_per_s"] == pytest.approx(3 * float(str(alone["turns_per_s"])), rel=1e-12)

    def test_a_replica_larger_than_the_gpus(self) -> None:
        scenario = article_scenario(gpus=4)
        rows = roofline_points("h200-sxm", "llama-3-1-70b", "article", weight_dtype="bf16", tp=8)
        (point,) = solved(rows, setting("h200-sxm", "llama-3-1-70b", scenario)).to_dicts()
        assert (point["replicas"], point["infeasible_reason"]) == (0, "replica_larger_than_cluster")
        assert (point["sessions_admitted"], point["cluster_turns_per_s"]) == (0.0, 0.0)
        assert not point["on_frontier"]

    def test_memory_caps_what_is_admitted(self) -> None:
        """C_eff = min(C, max_sessions): 1,000 sessions want in, each replica takes what it holds."""
        point = self.points(1_000)
        held = float(str(point["max_sessions"]))
        assert 0 < held < 250
        assert (point["sessions"], point["sessions_admitted"]) == (held, 4 * held)
        assert point["feasible"] is True
        assert point["sessions_wanted"] == 1_000.0

    def test_no_operating_point_where_no_sessions_are_fixed(self) -> None:
        scenario = article_scenario(sessions=None, gpus=None)
        rows = roofline_points("h200-sxm", "llama-3-1-70b", "article")
        assert solved(rows, setting("h200-sxm", "llama-3-1-70b", scenario)).is_empty()


class TestEndsOfTables:
    """Past the ends of a configuration's curve nothing is known, and nothing is left out."""

    def curve(self) -> pl.DataFrame:
        """One configuration with batches of several sizes; short contexts leave memory aside."""
        points = shipped_points("candidates/h200_sxm__llama-3.1-8b__isl4000_osl1000__agg.csv.gz")
        curve = points.filter(tp=1, weight_dtype="bf16", kv_dtype="bf16", context_requests_per_step=1.0)
        return curve.sort("batch_per_rank")

    def solve(self, rows: pl.DataFrame, sessions: int, gpus: int = 1) -> dict[str, object]:
        scenario = article_scenario(
            turns=1, initial_prompt_tokens=200, first_turn_new_tokens=200, sessions=sessions, gpus=gpus,
            cache=FixedCache(hit_rate=1.0),
        )  # fmt: skip
        (point,) = solved(rows, setting("h200-sxm", "llama-3-1-8b", scenario)).to_dicts()
        return point

    def test_the_curve(self) -> None:
        rows = self.curve()
        assert rows.height >= 10
        assert rows["batch_per_rank"][0] == 1

    def test_more_sessions_than_the_table(self) -> None:
        point = self.solve(self.curve(), 3_000)
        assert point["infeasible_reason"] == "more_sessions_than_table"
        assert (point["sessions_admitted"], point["cluster_turns_per_s"]) == (0.0, 0.0)
        assert 0 < float(str(point["sessions"])) < 3_000

    def test_fewer_sessions_than_the_table(self) -> None:
        point = self.solve(self.curve().filter(pl.col("batch_per_rank") >= 16), 2)
        assert point["infeasible_reason"] == "fewer_sessions_than_table"
        assert float(str(point["sessions"])) > 2

    def test_a_lone_session_at_a_batch_of_one(self) -> None:
        """In flight the first row has less than one request or little more: its R is that of a lone session."""
        point = self.solve(self.curve(), 1)
        assert point["infeasible_reason"] is None
        assert point["sessions"] == 1.0

    def test_one_share_beyond_the_table_is_enough(self) -> None:
        """Two replicas share C sessions as ceil and floor; the curve begins between the two."""
        rows = self.curve().filter(pl.col("batch_per_rank") >= 16)
        first = float(str(self.solve(rows, 2)["sessions"]))
        uneven = 2 * int(first) + 1
        point = self.solve(rows, uneven, gpus=2)
        assert point["sessions"] == int(first) + 1
        assert point["infeasible_reason"] == "fewer_sessions_than_table"
        assert point["sessions_admitted"] == 0.0
        fits = self.solve(rows, 2 * (int(first) + 1), gpus=2)
        assert (fits["infeasible_reason"], fits["sessions_admitted"]) == (None, 2.0 * (int(first) + 1))

    @pytest.mark.parametrize("sessions", [1, 2, 7, 17, 40, 301, 3_000])
    def test_every_configuration_has_one_row(self, sessions: int) -> None:
        points = shipped_points(MIXED_BACKENDS)
        shared = setting("h200-sxm", "llama-3-1-8b", article_scenario(sessions=sessions))
        operating = solved(points, shared)
        assert operating.height == points.select(CURVE).n_unique()
        admitted = operating.filter(pl.col("sessions_admitted") > pl.col("sessions_wanted") * (1 + 1e-9))
        assert admitted.is_empty()
        # an operating point lies between rows: it has no batch and no concurrency of its own
        assert (
            operating["batch_per_rank"].null_count()
            == operating["concurrency_reported"].null_count()
            == operating.height
        )


@pytest.mark.parametrize("preset", ["article", "calibrated"])
def test_the_roofline_is_evaluated_and_not_interpolated(preset: RooflinePreset) -> None:
    """The same figures whether many batches were synthesised or few."""
    rows = roofline_points("h100-sxm", "llama-3-1-70b", preset, weight_dtype="bf16", tp=8)
    few = rows.filter(pl.col("batch_per_rank").is_in([1.0, 512.0]))
    shared = setting("h100-sxm", "llama-3-1-70b", article_scenario())
    (all_batches,), (two_batches,) = solved(rows, shared).to_dicts(), solved(few, shared).to_dicts()
    for name in ("sessions", "ttft_ms", "tpot_ms", "turn_latency_ms", "first_turn_latency_ms", "turns_per_s"):
        assert all_batches[name] == pytest.approx(two_batches[name], rel=1e-9)


@pytest.mark.parametrize("over_capacity", ["wait", "thrash"])
@pytest.mark.parametrize(("sessions", "let_in"), [(1, 1), (3, 3), (4, 3)])
def test_fewer_sessions_than_a_batch_of_one_may_fit_where_its_own_do_not(
    over_capacity: str, sessions: int, let_in: int
) -> None:
    """DeepSeek-V3 on 4 + 4 B200: requests in both pools make a batch of one on a decode worker more than 5 research
    agents. Memory less a tenth holds 3, who are served as those are."""
    points = shipped_points("candidates/b200_sxm__deepseek-v3__isl4000_osl1000__disagg.csv.gz")
    points = points.filter(pl.col("decode_tp") == 4)
    scenario = article_scenario("research-agent", sessions=sessions)
    found = solved(points, setting("b200", "deepseek-v3", scenario, over_capacity=over_capacity, reserve_fraction=0.1))
    assert found.height == 3
    assert found["feasible"].all()
    waits = over_capacity == "thrash" and sessions > let_in
    of, latency = ("waiting_sessions", "waiting_turn_latency_ms") if waits else ("sessions", "turn_latency_ms")
    assert found[of].to_list() == [let_in] * 3
    carried = carry_points(points, setting("b200", "deepseek-v3", scenario, reserve_fraction=0.1))
    rows = carried.filter(pl.col("batch_per_rank") == 1)
    first = rows.filter(pl.col("sessions") > 5, infeasible_reason="kv_capacity_below_table")["turn_latency_ms"]
    # those that fill the memory in the mean do not always fit, where nobody waits
    rel = 0.03 if over_capacity == "thrash" and sessions == let_in > 1 else 1e-9
    assert found[latency].sort().to_list() == pytest.approx(first.sort().to_list(), rel=rel)
    assert (found[latency].sort() >= first.sort() * (1 - 1e-9)).all()
