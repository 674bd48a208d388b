"""A smaller real lake, built once through the stages of a build: what must hold on every published row.

Shipped AIConfigurator tables of five kinds, a table with faults, and roofline points of the pairs of GPU and model
that no table covers; read back from the published DuckDB file. Everything is worked out again here in SQL or from
the catalogues, without the code of ``transforms``.
"""

from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest

from pipelines.reading.inputs import find_files
from schemas.catalogue import ModelCatalogue
from schemas.fields import FIELDS
from schemas.models import ModelSpec
from schemas.options import MappingOptions
from schemas.tables import TABLES
from tests.pipelines.real_lake import TABLE_FILES, RealLake, build_real_lake
from transforms.agent_points.carry import Setting, carry_points
from transforms.frontier import mark_frontiers

AGENT_TABLES = ("agent_points", "operating_points")
#: Data sheets round their peaks.
PEAK_TOLERANCE = 1.03


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealLake]:
    built = build_real_lake(tmp_path_factory.mktemp("real"))
    yield built
    built.connection.close()


def values(pairs: dict[str, float]) -> str:
    """A table of keys and numbers, as SQL."""
    return ", ".join(f"('{key}', {number!r}::DOUBLE)" for key, number in pairs.items())


class TestWhatIsThere:
    def test_every_kind_of_row(self, lake: RealLake) -> None:
        kinds = lake.rows("SELECT DISTINCT transfer_method, serving_mode FROM agent_points ORDER BY ALL")
        assert kinds == [
            ("ratio", "agg"), ("roofline", "agg"), ("roofline", "disagg"), ("transfer", "agg"), ("transfer", "disagg"),
        ]  # fmt: skip
        assert set(lake.rows("SELECT DISTINCT scenario FROM agent_points")) == {
            ("code-agent",), ("research-agent",), ("deep-reasoning",), ("long-context",)
        }  # fmt: skip
        assert lake.count("agent_points WHERE interpolated") > 100
        assert lake.count("agent_points WHERE feasible") > 3_000
        assert lake.count("operating_points WHERE feasible") > 100

    def test_rows_in_are_rows_accounted_for(self, lake: RealLake) -> None:
        """Rows in = accepted + duplicate + superseded + quarantined, per file and in total."""
        parts = "rows_accepted + rows_duplicate + rows_superseded + rows_quarantined"
        assert lake.count(f"sources WHERE rows_read != {parts}") == 0
        ((read, accepted, duplicate, quarantined),) = lake.rows(
            "SELECT sum(rows_read), sum(rows_accepted), sum(rows_duplicate), sum(rows_quarantined) FROM sources"
        )
        assert accepted == lake.count("serving_points WHERE source != 'roofline'")
        assert quarantined == lake.count("quarantine") == 3
        assert read == accepted + duplicate + quarantined  # type: ignore[operator]
        assert isinstance(duplicate, int)
        assert duplicate > 30
        lines = sum(1 for path in find_files(list(TABLE_FILES)) for _ in pl.read_csv(path.path).rows())
        assert read == lines + 13

    def test_every_serving_point_is_carried_to_every_scenario_once(self, lake: RealLake) -> None:
        """Where a configuration stands in tables of several workloads, one of them at each load (model.md 5.9)."""
        carried = lake.rows(
            "SELECT scenario, count(*), count(DISTINCT point_id) FROM agent_points WHERE NOT interpolated GROUP BY ALL"
        )
        assert len({(rows, points) for _, rows, points in carried}) >= 1
        for _, rows, points in carried:
            assert rows == points
        unknown = "agent_points WHERE NOT interpolated AND point_id NOT IN (SELECT point_id FROM serving_points)"
        assert lake.count(unknown) == 0
        load = "hardware, tp, pp, dp, linear_dtype, kv_dtype, context_requests_per_step, batch_per_rank, scenario"
        twice = f"SELECT 1 FROM agent_points WHERE hardware = 'h200-sxm' AND model = 'llama-3-1-70b' " \
                f"AND source = 'aiconfigurator' AND NOT interpolated AND serving_mode = 'agg' " \
                f"GROUP BY {load} HAVING count(*) > 1"  # fmt: skip
        assert lake.rows(twice) == []


@pytest.mark.parametrize("table", [*AGENT_TABLES, "agent_frontier"])
class TestIdentitiesOfEveryRow:
    """Steps 1-3 and 8: to the last digits, on every published row."""

    def test_littles_law(self, lake: RealLake, table: str) -> None:
        joined = f"{table} JOIN scenarios USING (scenario)"
        sessions = "turns_per_s * (turn_latency_ms / 1000 + think_time_s)"
        assert lake.fractions_off(joined, "sessions", sessions) < 1e-12
        rho = "(turn_latency_ms / 1000) / (turn_latency_ms / 1000 + think_time_s)"
        assert lake.fractions_off(joined, "activity_fraction", rho) < 1e-12
        assert lake.fractions_off(joined, "task_time_s", "turns * (turn_latency_ms / 1000 + think_time_s)") < 1e-12

    def test_in_flight(self, lake: RealLake, table: str) -> None:
        assert lake.fractions_off(table, "in_flight_requests", "sessions * activity_fraction") < 1e-12
        assert lake.fractions_off(table, "in_flight_requests", "turns_per_s * turn_latency_ms / 1000") < 1e-12

    def test_figures_per_gpu(self, lake: RealLake, table: str) -> None:
        joined = f"{table} JOIN scenarios USING (scenario)"
        for per_gpu, whole in (
            ("turns_per_s_per_gpu", "turns_per_s"),
            ("tasks_per_s_per_gpu", "turns_per_s / turns"),
            ("tasks_per_hour_per_gpu", "3600 * turns_per_s / turns"),
            ("output_tokens_per_s_per_gpu", "turns_per_s * output_tokens_per_turn"),
            ("sessions_per_gpu", "sessions"),
            ("tasks_per_s_per_gpu_step9", "serving_requests_per_s / turns * activity_fraction"),
        ):
            assert lake.fractions_off(joined, f"{per_gpu} * gpus_per_replica", whole) < 1e-12, per_gpu

    def test_speeds(self, lake: RealLake, table: str) -> None:
        joined = f"{table} JOIN scenarios USING (scenario)"
        assert lake.fractions_off(joined, "decode_tokens_per_s_per_user", "1000 / tpot_ms") < 1e-12
        end_to_end = "1000 * output_tokens_per_turn / turn_latency_ms"
        assert lake.fractions_off(joined, "e2e_tokens_per_s_per_user", end_to_end) < 1e-12
        latency = "ttft_ms + tpot_ms * (output_tokens_per_turn - 1)"
        assert lake.fractions_off(joined, "turn_latency_ms", latency) < 1e-9

    def test_the_loop_closes(self, lake: RealLake, table: str) -> None:
        """C = s * (1 + (b - 1)/rho) with b = X * R / s of the replica before the loop; Step 9 never exceeds it."""
        ranks = "coalesce(dp, decode_workers * decode_dp)"
        b = f"(serving_requests_per_s * turn_latency_ms / 1000 / {ranks})"
        fills = f"{ranks} * greatest({b}, 1 + ({b} - 1) / activity_fraction)"
        assert lake.fractions_off(table, "sessions", fills) < 1e-9
        assert lake.count(f"{table} WHERE tasks_per_s_per_gpu_step9 > tasks_per_s_per_gpu * (1 + 1e-9)") == 0

    def test_the_mean_turn_lies_between_the_first_and_the_last(self, lake: RealLake, table: str) -> None:
        """In the article's scenarios turns grow, the first is no longer than the others."""
        mean = "turn_latency_ms * (1 + 1e-12)"
        ordered = f"first_turn_latency_ms <= {mean} AND turn_latency_ms <= last_turn_latency_ms * (1 + 1e-12)"
        assert lake.count(f"{table} WHERE scenario != 'long-context' AND NOT ({ordered})") == 0


@pytest.mark.parametrize("table", ["serving_points", *AGENT_TABLES, "agent_frontier"])
def test_no_nan_no_infinity_and_null_only_where_declared(lake: RealLake, table: str) -> None:
    fields = TABLES[table].fields
    described = {str(name) for name, *_ in lake.rows(f"DESCRIBE {table}")}
    assert described == {field.name for field in fields} <= set(FIELDS)
    faults = {f"{field.name} not finite": f"NOT isfinite({field.name})" for field in fields if field.dtype.is_float()}
    faults |= {f"{field.name} NULL": f"{field.name} IS NULL" for field in fields if not field.nullable}
    counts = ", ".join(f"count(*) FILTER ({condition})" for condition in faults.values())
    (row,) = lake.rows(f"SELECT {counts} FROM {table}")
    assert {fault: count for fault, count in zip(faults, row, strict=True) if count} == {}


class TestFeasibility:
    """feasible iff the sessions fit, the weights fit and no other named reason applies."""

    @pytest.mark.parametrize("table", AGENT_TABLES)
    def test_feasible_rows_have_no_reason(self, lake: RealLake, table: str) -> None:
        assert lake.count(f"{table} WHERE feasible != (infeasible_reason IS NULL)") == 0

    def test_agent_points(self, lake: RealLake) -> None:
        facts = facts_against(lake)
        wrong = facts.filter(pl.col("feasible") == pl.any_horizontal("kv", "weights", "context", "memory", "flops"))
        assert wrong.select("hardware", "model", "scenario", "infeasible_reason").rows() == []
        # each reason stands where it is true, the first in order
        reasons = {
            "weights_do_not_fit": pl.col("weights"),
            "context_too_long": pl.col("context") & ~pl.col("weights"),
            "table_memory_exceeds_gpu": pl.col("memory") & ~pl.any_horizontal("weights", "context"),
            "kv_capacity": pl.col("kv") & ~pl.any_horizontal("weights", "context", "memory", "flops"),
        }
        for reason, applies in reasons.items():
            named = pl.col("infeasible_reason").str.starts_with(reason).fill_null(False)
            assert facts.filter(named != applies).is_empty(), reason
            assert facts.filter(named).height > 0, reason

    def test_operating_points(self, lake: RealLake) -> None:
        """Within what memory holds, on the scenario's GPUs, and all sessions admitted or memory full."""
        assert lake.count("operating_points WHERE feasible AND sessions > max_sessions * (1 + 1e-9)") == 0
        assert lake.count("operating_points WHERE feasible AND replicas * gpus_per_replica > gpus") == 0
        assert lake.count("operating_points WHERE sessions_admitted > sessions_wanted * (1 + 1e-9)") == 0
        assert lake.count("operating_points WHERE NOT feasible AND sessions_admitted > 0") == 0
        agg = "operating_points WHERE feasible AND serving_mode = 'agg'"
        short = f"{agg} AND sessions_admitted < sessions_wanted - 1e-6"
        assert lake.count(short) > 0
        assert lake.count(f"{short} AND abs(sessions / max_sessions - 1) > 1e-9") == 0

    def test_sessions_that_fit_on_dense_models(self, lake: RealLake) -> None:
        """dp * floor((gpus/dp * hbm * 0.9 - weights) / kv(Lbar)) by hand, on every aggregated row."""
        expected = []
        for slug in ("llama-3-1-8b", "llama-3-1-70b", "qwen3-32b"):
            spec = lake.models.get(slug)
            (group,) = spec.attention
            linear = spec.parameters.attention + spec.parameters.dense_mlp
            rest = 2 * (spec.parameters_total - linear)
            expected.append(f"('{slug}', {linear}, {rest}, {group.layers * group.kv_elements_per_entry}, "
                            f"{group.kv_heads})")  # fmt: skip
        element = "CASE kv_dtype WHEN 'fp8' THEN 1 ELSE 2 END"
        stored = "CASE linear_dtype WHEN 'fp8-block' THEN 1 + 4 / 16384 WHEN 'fp8' THEN 1 ELSE 2 END"
        left = f"gpus_per_replica / dp * hbm_bytes * 0.9 - linear * {stored} - rest"
        session = f"kappa * {element} * mean_context_tokens * tp / least(tp, heads)"
        rows = lake.frame(
            f"WITH dense(model, linear, rest, kappa, heads) AS (VALUES {', '.join(expected)}) "
            f"SELECT max_sessions, dp * floor(greatest({left}, 0) / ({session})) AS by_hand "
            "FROM agent_points JOIN dense USING (model) JOIN hardware USING (hardware) WHERE serving_mode = 'agg'"
        )
        assert rows.height > 2_000
        assert rows["max_sessions"].to_list() == rows["by_hand"].to_list()


def facts_against(lake: RealLake) -> pl.DataFrame:
    """Every agent point with what speaks against it, worked out from its own columns and the catalogues."""
    points = lake.frame(
        "SELECT * FROM agent_points JOIN (SELECT scenario, output_tokens_per_turn FROM scenarios) USING (scenario) "
        "JOIN (SELECT hardware, hbm_bytes, greatest(bf16_flops_per_s, coalesce(fp8_flops_per_s, 0), "
        "coalesce(fp4_flops_per_s, 0)) AS fastest FROM hardware) USING (hardware) "
        "JOIN (SELECT model, max_context_tokens, parameters_active FROM models) USING (model)"
    )
    c = pl.col
    looked_up = {spec.slug: float(spec.parameters.embedding if spec.parameters.output_head else 0)
                 for spec in lake.models}  # fmt: skip
    used = c("parameters_active") - c("model").replace_strict(looked_up, return_dtype=pl.Float64)
    tokens = c("prefill_tokens_per_turn") + c("output_tokens_per_turn") - 1
    points = points.with_columns(
        kv=c("sessions") > c("max_sessions") * (1 + 1e-9),
        context=(c("peak_context_tokens") > c("max_context_tokens")).fill_null(False),
        memory=(c("memory_bytes_per_gpu") > c("hbm_bytes")).fill_null(False),
        flops=2 * used * tokens * c("turns_per_s_per_gpu") > c("fastest") * PEAK_TOLERANCE,
    )
    return points.with_columns(pl.Series("weights", [not weights_fit(row, lake.models) for row in points.to_dicts()]))


def weights_fit(row: dict[str, Any], models: ModelCatalogue) -> bool:
    """Whether each pool's rank holds the whole non-expert part and its share of the experts, a tenth kept free."""
    spec: ModelSpec = models.get(str(row["model"]))
    weights = spec.non_expert_bytes(str(row["linear_dtype"]))
    experts = spec.expert_bytes(str(row["expert_dtype"])) if spec.moe else 0.0
    pools = ("",) if row["serving_mode"] == "agg" else ("prefill_", "decode_")
    return all(
        row[f"{pool}tp"] * row[f"{pool}pp"] * row[f"{pool}cp"] * row["hbm_bytes"] * 0.9
        > weights + experts / row[f"{pool}dp"]
        for pool in pools
    )


class TestFrontier:
    @pytest.mark.parametrize("table", AGENT_TABLES)
    def test_nobody_on_it_is_dominated_and_nobody_else_is_undominated(self, lake: RealLake, table: str) -> None:
        """By every feasible row of its group, in SQL: O(n^2)."""
        group = "hardware, model, weight_dtype, scenario"
        no_worse = "x.turn_latency_ms <= p.turn_latency_ms AND x.turns_per_s_per_gpu >= p.turns_per_s_per_gpu"
        better = "x.turn_latency_ms < p.turn_latency_ms OR x.turns_per_s_per_gpu > p.turns_per_s_per_gpu"
        feasible = f"(SELECT * FROM {table} WHERE feasible)"
        beaten = f"SELECT DISTINCT p.point_id, p.scenario FROM {table} p JOIN {feasible} x USING ({group}) " \
                 f"WHERE {no_worse} AND ({better})"  # fmt: skip
        wrong = f"{table} LEFT JOIN ({beaten}) AS b USING (point_id, scenario) " \
                f"WHERE on_frontier != (feasible AND b.point_id IS NULL)"  # fmt: skip
        assert lake.count(wrong) == 0
        deep_beaten = f"SELECT DISTINCT p.point_id, p.scenario FROM {table} p JOIN {feasible} x USING ({group}) " \
                      f"WHERE {no_worse} AND x.kv_bytes_per_gpu <= p.kv_bytes_per_gpu " \
                      f"AND ({better} OR x.kv_bytes_per_gpu < p.kv_bytes_per_gpu)"  # fmt: skip
        wrong = wrong.replace(beaten, deep_beaten).replace("on_frontier !=", "on_frontier_3d !=")
        assert lake.count(wrong) == 0

    def test_the_frontier_table_holds_what_is_marked(self, lake: RealLake) -> None:
        either = "agent_points WHERE on_frontier OR on_frontier_3d"
        marked = lake.rows(f"SELECT point_id, scenario FROM {either} ORDER BY ALL")
        assert marked == lake.rows("SELECT point_id, scenario FROM agent_frontier ORDER BY ALL")
        groups = lake.count(
            "(SELECT DISTINCT hardware, model, weight_dtype, scenario FROM agent_points WHERE feasible)"
        )
        with_front = "(SELECT DISTINCT hardware, model, weight_dtype, scenario FROM agent_frontier WHERE on_frontier)"
        assert lake.count(with_front) == groups > 20

    def test_shuffled_points_have_the_same_frontier(self, lake: RealLake) -> None:
        points = lake.frame("SELECT * FROM agent_points")
        again = mark_frontiers(points.drop("on_frontier", "on_frontier_3d").sample(fraction=1, shuffle=True, seed=7))
        columns = ("point_id", "scenario", "on_frontier", "on_frontier_3d")
        assert again.select(columns).sort(columns).equals(points.select(columns).sort(columns))

    @pytest.mark.parametrize(("gpu", "model"), [("b200", "deepseek-v3"), ("h100-sxm", "llama-3-1-70b")])
    def test_shuffled_serving_points_have_the_same_agent_points(self, lake: RealLake, gpu: str, model: str) -> None:
        points = lake.frame(f"SELECT * FROM serving_points WHERE hardware = '{gpu}' AND model = '{model}'")
        points = points.select(field.name for field in TABLES["serving_points"].fields)
        shared = Setting(lake.scenarios[0], lake.models.get(model), lake.hardware, MappingOptions())
        columns = ("point_id", "sessions", "turn_latency_ms", "turns_per_s", "infeasible_reason", "on_frontier")
        carried, again = (
            mark_frontiers(carry_points(rows, shared)).select(columns).sort(columns)
            for rows in (points, points.sample(fraction=1, shuffle=True, seed=11))
        )
        assert again.equals(carried)


class TestKvWall:
    def test_interpolated_points_lie_on_it(self, lake: RealLake) -> None:
        assert lake.fractions_off("agent_points WHERE interpolated", "sessions", "max_sessions") < 1e-9
        assert lake.count("agent_points WHERE interpolated AND NOT feasible") == 0
        assert lake.count("agent_points WHERE interpolated AND batch_per_rank IS NOT NULL") == 0

    def test_they_lie_between_their_neighbours(self, lake: RealLake) -> None:
        """The last row that fits and the next one of the same curve, TTFT and TPOT linear in the sessions."""
        points = lake.frame("SELECT * FROM agent_points")
        own = ("sessions", "ttft_ms", "tpot_ms", "turn_latency_ms", "feasible", "interpolated", "point_id")
        curve = [name for name in points.columns if name in CURVE_COLUMNS]
        checked = 0
        for _, rows in points.group_by([*curve, "scenario"]):
            walls = rows.filter("interpolated").select(own).to_dicts()
            assert len(walls) <= 1
            measured = rows.filter(~pl.col("interpolated")).sort("batch_per_rank", "sessions").select(own).to_dicts()
            for wall in walls:
                position = next(i for i, row in enumerate(measured) if wall["point_id"] == f"{row['point_id']}-wall")
                below, above = measured[position], measured[position + 1]
                assert below["feasible"]
                assert not above["feasible"]
                assert all(row["feasible"] for row in measured[: position + 1])
                assert below["sessions"] < wall["sessions"] <= above["sessions"]
                share = (wall["sessions"] - below["sessions"]) / (above["sessions"] - below["sessions"])
                for name in ("ttft_ms", "tpot_ms", "turn_latency_ms"):
                    assert wall[name] == pytest.approx(below[name] + share * (above[name] - below[name]), rel=1e-9)
                checked += 1
        assert checked == points["interpolated"].sum() > 100

    def test_a_curve_that_crosses_its_wall_has_its_point(self, lake: RealLake) -> None:
        """None where the first row is beyond it, and then the reason says so."""
        points = lake.frame("SELECT * FROM agent_points")
        curve = [name for name in points.columns if name in CURVE_COLUMNS]
        per_curve = points.group_by([*curve, "scenario"]).agg(
            fits=pl.col("feasible").any(),
            wall=pl.col("interpolated").any(),
            full=(pl.col("infeasible_reason") == "kv_capacity").any(),
            below=(pl.col("infeasible_reason") == "kv_capacity_below_table").any(),
            on_wall=(pl.col("feasible") & (pl.col("kv_utilization_fraction") > 1 - 1e-9)).any(),
        )
        assert per_curve.filter(pl.col("full") & ~pl.col("on_wall")).is_empty()
        assert per_curve.filter(pl.col("below") & (pl.col("fits") | pl.col("wall"))).is_empty()
        assert per_curve["below"].sum() > 0


#: Columns that two rows of one curve share (model.md 5.6), among those that are published.
CURVE_COLUMNS = frozenset(
    {
        "source", "tool_version", "hardware", "model", "weight_dtype", "expert_dtype", "linear_dtype", "kv_dtype",
        "attention_dtype", "backend", "backend_version", "serving_mode", "tp", "pp", "dp", "cp", "moe_tp", "moe_ep",
        "prefill_workers", "prefill_tp", "prefill_pp", "prefill_dp", "prefill_cp", "prefill_moe_tp", "prefill_moe_ep",
        "prefill_batch", "decode_workers", "decode_tp", "decode_pp", "decode_dp", "decode_cp", "decode_moe_tp",
        "decode_moe_ep", "gpus_per_replica", "context_requests_per_step", "isl_tokens", "osl_tokens", "prefix_tokens",
    }
)  # fmt: skip


class TestPhysics:
    """No published point moves or computes more than its GPUs can."""

    def test_decode_reads_below_peak_bandwidth(self, lake: RealLake) -> None:
        """Each step reads the linear weights, the experts of one token and the KV of the batch, on each GPU."""
        stored = {"bf16": 2.0, "fp8": 1.0, "fp8-block": 1.0, "nvfp4": 0.5, "mxfp4": 0.5, "int4": 0.5}
        rows = lake.frame(
            "SELECT * FROM agent_points JOIN (SELECT scenario, output_tokens_per_turn FROM scenarios) USING (scenario) "
            "JOIN (SELECT hardware, hbm_bandwidth_bytes_per_s FROM hardware) USING (hardware) WHERE NOT interpolated"
        )
        c = pl.col
        shares = []
        for (slug,), part in rows.group_by("model"):
            spec = lake.models.get(str(slug))
            linear = spec.parameters.attention + spec.parameters.dense_mlp + spec.parameters.shared_experts
            used = spec.parameters.routed_experts * (spec.moe.experts_per_token / spec.moe.experts if spec.moe else 0.0)
            tp, dp = pl.coalesce("tp", "decode_tp"), pl.coalesce("dp", "decode_dp")
            context = c("mean_context_tokens") + c("output_tokens_per_turn") / 2
            kv = sum(
                group.layers
                * group.kv_elements_per_entry
                * pl.min_horizontal(context, pl.lit(float(group.window_tokens or 1e9)))
                / pl.min_horizontal(tp, pl.lit(group.kv_heads))
                for group in spec.attention
            ) * pl.when(c("kv_dtype") == "fp8").then(1.0).otherwise(2.0)
            dense = linear * c("linear_dtype").replace_strict(stored) / tp
            experts = (used * c("expert_dtype").replace_strict(stored, default=0.0) / (tp * dp)).fill_null(0.0)
            read = dense + experts + c("batch_per_rank") * kv
            share = read / (c("tpot_ms") / 1e3) / c("hbm_bandwidth_bytes_per_s")
            shares.append(part.select(share=share))
        used_share = pl.concat(shares)["share"]
        assert used_share.null_count() == 0
        assert used_share.max() <= 1.0  # type: ignore[operator]
        assert used_share.max() > 0.5  # type: ignore[operator]

    def test_what_can_be_run_computes_below_peak(self, lake: RealLake) -> None:
        """Every turn multiplies its new tokens with every active parameter once; agent and operating points."""
        fastest = "greatest(bf16_flops_per_s, coalesce(fp8_flops_per_s, 0), coalesce(fp4_flops_per_s, 0))"
        for table in AGENT_TABLES:
            ((worst,),) = lake.rows(
                "SELECT max(2 * (parameters_active - looked_up) * turns_per_s_per_gpu "
                f"* (prefill_tokens_per_turn + output_tokens_per_turn - 1) / ({fastest})) "
                f"FROM {table} JOIN scenarios USING (scenario) JOIN hardware USING (hardware) "
                f"JOIN models USING (model) JOIN (VALUES {values(self.looked_up(lake))}) v(model, looked_up) "
                "USING (model) WHERE feasible"
            )
            assert isinstance(worst, float)
            assert 0.05 < worst < 1.0

    def looked_up(self, lake: RealLake) -> dict[str, float]:
        """Embeddings that are looked up and not multiplied."""
        return {
            spec.slug: float(spec.parameters.embedding if spec.parameters.output_head else 0) for spec in lake.models
        }

    def test_a_prefill_takes_its_time(self, lake: RealLake) -> None:
        """TTFT is not below the mean turn's FLOPs at the peak of all GPUs that prefill it."""
        fastest = "greatest(bf16_flops_per_s, coalesce(fp8_flops_per_s, 0), coalesce(fp4_flops_per_s, 0))"
        gpus = "coalesce(tp * pp * dp * cp, prefill_tp * prefill_pp * prefill_dp * prefill_cp)"
        least = f"2000 * (parameters_active - looked_up) * prefill_tokens_per_turn / ({fastest} * {gpus})"
        joined = (
            "agent_points JOIN hardware USING (hardware) JOIN models USING (model) "
            f"JOIN (VALUES {values(self.looked_up(lake))}) v(model, looked_up) USING (model)"
        )
        assert lake.count(f"{joined} WHERE ttft_ms < {least}") == 0
