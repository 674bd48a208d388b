"""The dictionary of fields and the tables made from it: everything is declared once, used, described, with its unit."""

import re

import duckdb
import pytest

from schemas.dictionary import column_comments, render_dictionary
from schemas.fields import FIELDS, Field
from schemas.frames import empty_frame, schema_of
from schemas.tables import TABLES

#: Columns that dashboards and jobs rely on (the contract); anything may be added.
CONTRACT = {
    "serving_points": """
        point_id source source_file source_row tool_version hardware hardware_name prefill_hardware decode_hardware
        model model_name weight_dtype expert_dtype kv_dtype backend backend_version serving_mode tp pp dp cp moe_tp
        moe_ep prefill_workers prefill_tp prefill_pp prefill_dp decode_workers decode_tp decode_pp decode_dp
        gpus_per_replica isl_tokens osl_tokens prefix_tokens concurrency_reported batch_per_rank
        context_requests_per_step context_tokens_per_step in_flight_requests ttft_ms tpot_ms request_latency_ms
        requests_per_s output_tokens_per_s_per_gpu tokens_per_s_per_user memory_bytes_per_gpu mixed_step_ms
        decode_step_ms latency_statistic tpot_source draft_tokens accepted_tokens""",
    "agent_points": """
        point_id source source_file source_row tool_version hardware hardware_name prefill_hardware decode_hardware
        model model_name weight_dtype expert_dtype kv_dtype backend backend_version serving_mode tp pp dp cp moe_tp
        moe_ep prefill_workers prefill_tp prefill_pp prefill_dp decode_workers decode_tp decode_pp decode_dp
        gpus_per_replica concurrency_reported batch_per_rank scenario scenario_name interpolated transfer_method
        serving_requests_per_s sessions activity_fraction in_flight_requests cache_hit_rate mean_context_tokens
        peak_context_tokens prefill_tokens_per_turn ttft_ms tpot_ms turn_latency_ms first_turn_latency_ms
        last_turn_latency_ms task_time_s turns_per_s turns_per_s_per_gpu tasks_per_s_per_gpu tasks_per_hour_per_gpu
        tasks_per_s_per_gpu_step9 output_tokens_per_s_per_gpu decode_tokens_per_s_per_user
        e2e_tokens_per_s_per_user sessions_per_gpu kv_bytes_per_session_mean kv_bytes_per_session_peak
        kv_bytes_available kv_bytes_per_gpu max_sessions_mean_context max_sessions_p95_context
        max_sessions_peak_context max_sessions kv_utilization_fraction feasible infeasible_reason binding_limit
        on_frontier on_frontier_3d""",
    "quarantine": "source_file source_row reason detail raw",
    "sources": """path sha256 format tool tool_version rows_read rows_accepted rows_duplicate rows_superseded
        rows_quarantined rejected_reason""",
    "operating_points": "replicas sessions sessions_admitted",
    "scenarios": "scenario scenario_name turns think_time_s",
}
#: How a name ends -> its unit. The longest ending that fits says what the unit must be.
UNITS = {
    "_ms": "ms", "_s": "s", "_tokens": "tokens", "_bytes": "bytes", "_gb": "GB", "_fraction": "-", "_rate": "-",
    "_per_s": "1/s", "_tokens_per_s": "tokens/s", "_bytes_per_s": "bytes/s", "_flops_per_s": "FLOP/s",
    "_per_s_per_gpu": "1/s/GPU", "_per_s_per_gpu_step9": "1/s/GPU", "_tokens_per_s_per_gpu": "tokens/s/GPU",
    "_per_hour_per_gpu": "1/h/GPU", "_per_s_per_cluster_gpu": "1/s/GPU", "_per_hour_per_cluster_gpu": "1/h/GPU",
    "_tokens_per_s_per_user": "tokens/s", "_bytes_per_gpu": "bytes", "_sessions": "sessions",
    "_requests": "requests", "_million_output_tokens": "USD/Mtokens", "_per_gpu_hour": "USD/h/GPU",
    "usd_per_task": "USD",
}  # fmt: skip
#: Units that a name must show by one of these words.
SHOWN = {"ms": "_ms", "s": "_s", "bytes": "bytes", "GB": "_gb", "tokens": "tokens", "1/s": "_per_s",
         "FLOP/s": "_flops_per_s"}  # fmt: skip
SLUG_COLUMNS = {"hardware", "model", "scenario"}


def test_every_field_stands_in_a_table() -> None:
    used = {name for table in TABLES.values() for name in table.field_names}
    assert used == set(FIELDS)


@pytest.mark.parametrize("table", TABLES)
def test_keys_and_partitions_are_columns(table: str) -> None:
    described = TABLES[table]
    assert len(set(described.field_names)) == len(described.field_names)
    assert described.key
    assert set(described.key) <= set(described.field_names)
    assert set(described.partitions) <= set(described.field_names) & SLUG_COLUMNS
    assert described.description.endswith(".")
    for field in described.fields:
        if field.name in (*described.key, *described.partitions):
            assert not field.nullable


@pytest.mark.parametrize("table", CONTRACT)
def test_columns_of_the_contract_are_there(table: str) -> None:
    assert set(CONTRACT[table].split()) <= set(TABLES[table].field_names)


def test_the_frontier_has_the_columns_of_the_agent_points() -> None:
    assert TABLES["agent_frontier"].field_names == TABLES["agent_points"].field_names
    assert set(TABLES["agent_points"].field_names) <= set(TABLES["operating_points"].field_names)


@pytest.mark.parametrize("field", FIELDS.values(), ids=lambda field: field.name)
class TestEachField:
    def test_is_described(self, field: Field) -> None:
        assert re.fullmatch(r"[a-z][a-z0-9_]*", field.name)
        assert len(field.description) >= 8
        assert not field.description.endswith(".")
        assert field.source
        assert field.unit

    def test_its_unit_is_that_of_its_name(self, field: Field) -> None:
        endings = [ending for ending in UNITS if field.name.endswith(ending)]
        if endings and field.dtype.is_numeric() and not field.name.startswith("rows_"):
            assert field.unit == UNITS[max(endings, key=len)]
        if field.unit in SHOWN and field.dtype.is_float():
            assert SHOWN[field.unit] in field.name

    def test_text_and_flags_have_no_unit_and_no_range(self, field: Field) -> None:
        if not field.dtype.is_numeric():
            assert field.unit == "-"
            assert (field.at_least, field.above, field.at_most) == (None, None, None)
        else:
            assert field.allowed is None


class TestDictionary:
    def test_every_table_and_column_stands_on_the_page_with_its_meaning(self) -> None:
        sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", render_dictionary(), re.S | re.M))
        assert list(sections) == list(TABLES)
        for name, table in TABLES.items():
            rows = re.findall(r"^\| (\w+) \| ([A-Z]+) \| (\S+) \| (yes|no) \| (.*)\. ?[^|]*\| ([^|]+) \|$",
                              sections[name], re.M)  # fmt: skip
            assert [row[0] for row in rows] == list(table.field_names)
            for (_, _, unit, null, meaning, source), field in zip(rows, table.fields, strict=True):
                assert (unit, null) == (field.unit, "yes" if field.nullable else "no")
                assert meaning.startswith(field.description)
                assert source == field.source

    def test_it_is_the_same_every_time(self) -> None:
        assert render_dictionary() == render_dictionary()

    @pytest.mark.parametrize("table", TABLES)
    def test_types_are_those_that_duckdb_reads(self, table: str) -> None:
        frame = empty_frame(table)
        with duckdb.connect() as connection:
            connection.register("empty", frame.to_arrow())
            described = {name: kind for name, kind, *_ in connection.execute("DESCRIBE empty").fetchall()}
        page = render_dictionary()
        section = page[page.index(f"\n## {table}\n") :]
        for name, kind in described.items():
            assert re.search(rf"^\| {name} \| {re.escape(kind)} \|", section, re.M), (name, kind)

    @pytest.mark.parametrize("table", TABLES)
    def test_comments_name_the_unit(self, table: str) -> None:
        comments = column_comments(table)
        assert list(comments) == list(TABLES[table].field_names)
        for field in TABLES[table].fields:
            assert comments[field.name].startswith(field.description)
            assert (f"[{field.unit}]" in comments[field.name]) == (field.unit != "-")

    @pytest.mark.parametrize("table", TABLES)
    def test_pandera_carries_description_unit_and_source(self, table: str) -> None:
        columns = schema_of(table).columns
        for field in TABLES[table].fields:
            column = columns[field.name]
            assert column.description == field.description
            assert column.metadata == {"unit": field.unit, "source": field.source}
