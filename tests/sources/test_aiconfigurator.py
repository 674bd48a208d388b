"""AIConfigurator tables of every release, and what must not be read out of them."""

import csv
import io
import re
from collections.abc import Mapping
from pathlib import Path

import polars as pl
import pytest

from tests.sources.whole import read_file
from tests.transforms.factory import AIC_COLUMNS, aic_row, csv_text, input_file, judged
from transforms.sources import aiconfigurator
from transforms.sources.aiconfigurator_columns import AGG_COLUMNS, DISAGG_COLUMNS
from transforms.sources.rows import FileRejectedError, InputFile

#: Columns that came with a release, newest first (AIConfigurator's ColumnsAgg and ColumnsDisagg).
AGG_SINCE = {
    "0.10-0.12": ("encoder_latency", "encoder_memory", "cp"),
    "0.5-0.9": ("request_latency", "power_w"),
    "0.4": ("prefix",),
}
DISAGG_SINCE = {
    "0.12": ("(e)bs",),
    "0.10-0.12": ("encoder_latency", "(p)cp", "(e)workers", "(e)tp", "(e)pp", "(e)parallel", "(e)memory"),
    "0.5-0.9": ("request_latency", "power_w"),
    "0.4": ("prefix",),
}

AGG_ROW = aic_row(
    bs=24, ttft=750.0, tpot=12.5, request_latency=7000.0, **{
        "seq/s": 3.429, "seq/s/gpu": 0.857, "tokens/s": 1714.286, "tokens/s/gpu": 428.571, "tokens/s/user": 80.0,
    }
)  # fmt: skip
#: A row of AIConfigurator 0.12.0 (Qwen3-32B on H200, 4 x 1 + 1 x 4 GPUs).
DISAGG_TEXT = """\
model,isl,osl,prefix,concurrency,request_rate,(p)bs,(p)global_bs,(p)workers,(d)bs,(d)global_bs,(d)workers,ttft,tpot,\
request_latency,encoder_latency,seq/s,seq/s/gpu,tokens/s,tokens/s/gpu,tokens/s/user,(p)seq/s/worker,(d)seq/s/worker,\
num_total_gpus,(p)tp,(p)pp,(p)dp,(p)moe_tp,(p)moe_ep,(p)cp,(p)parallel,(p)gemm,(p)kvcache,(p)fmha,(p)moe,(p)comm,\
(p)memory,(p)backend,(p)version,(p)system,(d)tp,(d)pp,(d)dp,(d)moe_tp,(d)moe_ep,(d)parallel,(d)gemm,(d)kvcache,\
(d)fmha,(d)moe,(d)comm,(d)memory,(d)backend,(d)version,(d)system,(e)workers,(e)tp,(e)pp,(e)bs,(e)parallel,(e)memory,\
power_w,tokens/s/gpu_cluster
Qwen/Qwen3-32B,4000,1000,0,344,7.349,1,1,4,344,344,1,749.122,43.109,43815.013,0.0,7.349,0.919,7348.96,918.62,23.197,\
2.403,7.988,8,1,1,1,1,1,1,tp1pp1dp1etp1ep1,bfloat16,bfloat16,bfloat16,bfloat16,half,66.171,trtllm,1.3.0rc20,\
h200_sxm,4,1,1,1,1,tp4pp1dp1etp1ep1,bfloat16,bfloat16,bfloat16,bfloat16,half,124.187,trtllm,1.3.0rc20,h200_sxm,0,0,\
0,0,,0.0,0.0,918.62
"""
DISAGG_ROW = next(csv.DictReader(io.StringIO(DISAGG_TEXT)))

#: Three rows of AIConfigurator 0.12.0 with `--nextn 2 --nextn-accepted 1.4` (DeepSeek-V3 on H200, TRT-LLM).
MTP_TEXT = (
    ",".join(AIC_COLUMNS)
    + """
deepseek-ai/DeepSeek-V3,4000,1000,0,3840,12.994,240,3840,4144.958,294.116,297967.154,0,0.0,12.994,0.812,12981.087,811.318,3.4,16,1,1,16,1,16,1,tp1pp1dp16etp1ep16,fp8_block,fp8,bfloat16,fp8_block,half,117.31,0.575,1.0,239.0,4239.0,4000,239.0,trtllm,1.3.0rc20,h200_sxm,0.0
deepseek-ai/DeepSeek-V3,4000,1000,0,160,6.94,10,160,3454.818,18.224,21660.136,0,0.0,6.94,0.434,6933.498,433.344,54.874,16,1,1,16,1,16,1,tp1pp1dp16etp1ep16,fp8_block,fp8,bfloat16,fp8_block,half,79.678,0.012,2.0,8.0,8008.0,8000,8.0,trtllm,1.3.0rc20,h200_sxm,0.0
deepseek-ai/DeepSeek-V3,4000,1000,0,2,0.356,2,2,349.54,5.439,5782.879,0,0.0,0.356,0.045,355.985,44.498,183.865,8,8,1,1,2,4,1,tp8pp1dp1etp2ep4,fp8_block,fp8,bfloat16,fp8_block,half,94.723,0.005,1.0,1.0,4001.0,4000,1.0,trtllm,1.3.0rc20,h200_sxm,0.0
"""
)


def cut(row: Mapping[str, str], since: Mapping[str, tuple[str, ...]], release: str) -> dict[str, str]:
    """The row with the columns of a release: without those of every later one."""
    later = list(since)[: list(since).index(release)] if release in since else list(since)
    gone = {name for newer in later for name in since[newer]}
    return {name: value for name, value in row.items() if name not in gone}


def beside(text: str, config: str | None, name: str = "exp_config.yaml") -> InputFile:
    file = input_file(text)
    return InputFile(file.path, file.content, file.sha256, {} if config is None else {name: config.encode()})


def one(text: str) -> dict[str, object]:
    """The only row of a table, which must be accepted."""
    good, bad = judged(input_file(text))
    assert bad["detail"].to_list() == []
    return good.row(0, named=True)


def fault(row: Mapping[str, str], **changed: str) -> tuple[str, str]:
    """Reason and detail of a row with some cells changed."""
    good, bad = judged(input_file(csv_text([{**row, **changed}])))
    assert good.is_empty()
    (found,) = bad.select("reason", "detail").rows()
    return found


class TestReleases:
    @pytest.mark.parametrize("release", ["0.10-0.12", "0.5-0.9", "0.4", "0.1-0.3"])
    def test_aggregated(self, release: str) -> None:
        point = one(csv_text([cut(AGG_ROW, AGG_SINCE, release)]))
        assert point["tool_version"] == release
        figures = ("isl_tokens", "osl_tokens", "prefix_tokens", "concurrency_reported", "gpus_per_replica", "cp")
        assert [point[name] for name in figures] == [4000, 501, 0, 24, 4, 1]
        assert (point["ttft_ms"], point["tpot_ms"], point["request_latency_ms"]) == (750.0, 12.5, 7000.0)
        assert point["requests_per_s"] == pytest.approx(1714.286 / 500, rel=1e-5)

    @pytest.mark.parametrize("release", ["0.12", "0.10-0.12", "0.5-0.9", "0.4", "0.1-0.3"])
    def test_disaggregated(self, release: str) -> None:
        point = one(csv_text([cut(DISAGG_ROW, DISAGG_SINCE, release)]))
        assert point["tool_version"] == release
        assert (point["serving_mode"], point["gpus_per_replica"]) == ("disagg", 4 * 1 + 1 * 4)
        assert (point["prefill_workers"], point["prefill_tp"], point["decode_workers"], point["decode_tp"]) == (
            4,
            1,
            1,
            4,
        )
        assert point["request_latency_ms"] == pytest.approx(749.122 + 43.109 * 999)
        assert point["requests_per_s"] == pytest.approx(7348.96 / 1000)

    def test_column_lists(self, shared: Path) -> None:
        """Every column of every release is known, and the lists cut down above are the releases'."""
        text = (shared / "tables/aiconfigurator/columns_by_release.txt").read_text()
        sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
        named = {kind: set(re.findall(r"'([^']+)'", section)) for kind, section in sections.items()}
        assert named["ColumnsAgg"] | named["ColumnsIFB"] <= AGG_COLUMNS
        assert named["ColumnsDisagg"] <= DISAGG_COLUMNS
        assert named["ColumnsIFB"] == set(cut(AGG_ROW, AGG_SINCE, "0.1-0.3"))
        first = set(cut(DISAGG_ROW, DISAGG_SINCE, "0.1-0.3")) - {"tokens/s/gpu_cluster"}
        assert first == set(re.findall(r"'([^']+)'", sections["ColumnsDisagg"].split("v0.1.1")[0]))

    def test_file_names_do_not_matter(self) -> None:
        for path in ("pareto.csv", "agg_pareto.csv", "best_config_topn.csv", "x.csv.gz", "disagg_pareto.csv"):
            assert read_file(input_file(csv_text([AGG_ROW]), path)).rows["serving_mode"].to_list() == ["agg"]

    @pytest.mark.parametrize(
        ("given", "slug"),
        [("LLAMA3.1_70B", "llama-3-1-70b"), ("DEEPSEEK_V3", "deepseek-v3"), ("QWEN3_32B", "qwen3-32b")],
    )
    def test_short_model_ids_of_the_first_releases(self, given: str, slug: str) -> None:
        slow = {
            "tpot": "99.0",
            "tokens/s/user": "10.101",
            "request_latency": "50250.0",
            "bs": "172",
            "concurrency": "172",
        }
        point = one(csv_text([{**AGG_ROW, **slow, "moe_tp": "4", "model": given}]))
        assert (point["model"], point["model_name"]) == (slug, given)

    def test_gb200_sxm(self) -> None:
        assert one(csv_text([{**AGG_ROW, "system": "gb200_sxm"}]))["hardware"] == "gb200"


class TestOtherTables:
    @pytest.mark.parametrize(
        ("columns", "says"),
        [
            (("(a)nodes", "(f)workers"), "AFD"),
            (("(a)workers", "(e)workers"), "EPD"),
            (("context_latency", "generation_latency"), "static"),
            (("goodput",), "'goodput' is not known"),
        ],
    )
    def test_are_named_and_refused(self, columns: tuple[str, ...], says: str) -> None:
        with pytest.raises(FileRejectedError, match=says):
            read_file(input_file(csv_text([{**AGG_ROW, **dict.fromkeys(columns, "1")}])))

    def test_a_missing_column_is_named(self) -> None:
        row = {name: value for name, value in AGG_ROW.items() if name != "kvcache"}
        with pytest.raises(FileRejectedError, match="'kvcache' of an AIConfigurator table is missing"):
            read_file(input_file(csv_text([row])))

    def test_rows_with_an_encoder(self) -> None:
        assert fault(AGG_ROW, encoder_latency="12.0")[0] == "encoder_stage"
        assert fault(DISAGG_ROW, **{"(e)workers": "1"})[0] == "encoder_stage"


class TestBackendAuto:
    def test_trailing_backend_column(self) -> None:
        assert one(csv_text([{**DISAGG_ROW, "backend": "trtllm"}]))["backend"] == "trtllm"

    def test_backend_that_is_not_its_pools(self) -> None:
        assert fault({**DISAGG_ROW, "backend": "vllm"}) == (
            "pools_differ", "the row is of backend vllm, its pools of trtllm",
        )  # fmt: skip

    def test_aggregated_rows_of_several_backends(self) -> None:
        good, _ = judged(input_file(csv_text([AGG_ROW, {**AGG_ROW, "backend": "sglang"}])))
        assert good["backend"].to_list() == ["trtllm", "sglang"]


class TestShape:
    def test_gpus_are_those_of_the_shape(self) -> None:
        assert fault(AGG_ROW, num_total_gpus="8")[0] == "gpus_do_not_fit_shape"

    def test_counts_without_context_parallelism(self) -> None:
        """Releases before 0.10 left (p)cp out of the count and of the rate per GPU: the shape is right."""
        row = {**DISAGG_ROW, "(p)cp": "2"}
        assert one(csv_text([row]))["gpus_per_replica"] == 4 * 2 + 4
        assert fault(row, num_total_gpus="10")[0] == "gpus_do_not_fit_shape"

    def test_a_fraction_of_a_gpu(self) -> None:
        assert fault(AGG_ROW, tp="4.5") == ("not_whole", "tp is 4.5, must be a whole number up to 1,000,000")
        assert fault(DISAGG_ROW, **{"(d)workers": "1.2"})[0] == "not_whole"
        assert fault(AGG_ROW, tp="1e300")[0] == "not_whole"

    def test_mixed_hardware_is_a_key_of_its_own(self) -> None:
        point = one(csv_text([{**DISAGG_ROW, "(d)system": "b200_sxm"}]))
        assert (point["hardware"], point["hardware_name"]) == ("h200-sxm-and-b200", "h200_sxm and b200_sxm")
        assert (point["prefill_hardware"], point["decode_hardware"]) == ("h200-sxm", "b200")


class TestInclusiveTpot:
    def row(self, ttft: float, tpot: float, osl: int, inclusive: bool) -> dict[str, str]:
        """A row as written with ``--inclusive-tpot`` or without it."""
        latency, seqs = ttft + tpot * (osl - 1), 24 / (ttft + tpot * (osl - 1)) * 1e3
        stated = latency / osl if inclusive else tpot
        tokens = seqs * (osl - 1)
        times = {"ttft": round(ttft, 3), "tpot": round(stated, 3), "request_latency": round(latency, 3)}
        return aic_row(bs=24, osl=osl, **times, **{
            "seq/s": round(seqs, 3), "seq/s/gpu": round(seqs / 4, 3), "tokens/s": round(tokens, 3),
            "tokens/s/gpu": round(tokens / 4, 3), "tokens/s/user": round(1e3 / tpot, 3),
        })  # fmt: skip

    @pytest.mark.parametrize(("ttft", "tpot", "osl"), [(1000, 20, 100), (300, 10, 100), (60, 5.5, 1000), (9000, 4, 64)])
    def test_is_recovered(self, ttft: float, tpot: float, osl: int) -> None:
        """Also where the TTFT distorts by 1 % alone: (60 + 999*5.5)/1000 is 5.5545."""
        points = [one(csv_text([self.row(ttft, tpot, osl, inclusive)])) for inclusive in (False, True)]
        assert [point["tpot_source"] for point in points] == ["reported", "recovered"]
        for point in points:
            assert point["tpot_ms"] == pytest.approx(tpot, rel=1e-4)
            assert point["request_latency_ms"] == pytest.approx(ttft + tpot * (osl - 1), rel=1e-4)

    def test_a_tpot_that_is_neither(self) -> None:
        assert fault(self.row(1000, 20, 100, inclusive=False), tpot="24.0")[0] == "tpot_does_not_fit_speed"

    def test_small_figures_may_be_rounded(self) -> None:
        """A speed of 0.05 tokens/s/user is off by 1 % in its third decimal, and no fault."""
        slow = self.row(100_000, 20_400, 100, inclusive=False)
        assert slow["tokens/s/user"] == "0.049"
        assert one(csv_text([slow]))["tpot_source"] == "reported"


class TestDrafts:
    CONFIG = "isl: 4000\nosl: 1000\nnextn: 2\nnextn_accepted: 1.4\n"

    def test_come_from_the_configuration_beside(self) -> None:
        rows = read_file(beside(MTP_TEXT, self.CONFIG)).rows
        assert rows["draft_tokens"].to_list() == [2, 2, 2]
        assert rows["accepted_tokens"].to_list() == [2.4] * 3

    def test_are_none_without_it(self) -> None:
        for config in (None, "nextn: 0\nnextn_accepted: null\n", "[]"):
            rows = read_file(beside(MTP_TEXT, config)).rows
            assert set(rows["draft_tokens"]) == {0}
            assert set(rows["accepted_tokens"]) == {1.0}

    def test_step_times(self) -> None:
        """By hand, row 2: 10 requests of a rank, 2 prefills a mixed step, 1 + 999/2.4 = 417.25 decode iterations."""
        good, bad = judged(beside(MTP_TEXT, self.CONFIG))
        assert bad.is_empty()
        t_mix = 3454.818 / (2 + (5 - 3) / 20)
        t_dec = (18.224 * 2.4 * (2 + 412.25) - 2 * t_mix) / 412.25
        assert good["mixed_step_ms"][1] == pytest.approx(t_mix, rel=1e-6)
        assert good["decode_step_ms"][1] == pytest.approx(t_dec, rel=1e-6)
        assert 1e3 * 16 * 10 / (5 * t_mix + 412.25 * t_dec) == pytest.approx(6933.498 / 999, rel=1e-4)
        assert good["mixed_step_ms"].null_count() == 0

    def test_chances_by_position_of_the_releases_before(self) -> None:
        """0.85, then 0.85 * 0.3: AIConfigurator's default before 0.12 accepts 1.105 of two."""
        for config in ("config:\n  nextn: 2\n  nextn_accept_rates: [0.85, 0.3, 0.0, 0.0, 0.0]\n", "nextn: 2\n"):
            assert set(read_file(beside(MTP_TEXT, config)).rows["accepted_tokens"]) == {1 + 0.85 + 0.85 * 0.3}

    def test_columns_go_before_the_configuration(self) -> None:
        text = csv_text(
            [{**AGG_ROW, "nextn": "1", "nextn_accepted": "0.7"}, {**AGG_ROW, "nextn": "", "nextn_accepted": ""}]
        )
        rows = read_file(beside(text, "nextn: 3\nnextn_accepted: 2\n")).rows
        assert rows["draft_tokens"].to_list() == [1, 3]
        assert rows["accepted_tokens"].to_list() == [1.7, 3.0]

    def test_a_configuration_of_another_table(self) -> None:
        rows = read_file(beside(MTP_TEXT, self.CONFIG.replace("4000", "8192"))).rows
        assert set(rows["reason"]) == {"configuration_differs"}

    @pytest.mark.parametrize(
        ("config", "says"),
        [
            ("nextn: 2\nnextn_accepted: 2.5\n", "accepts 2.5 of 2 drafted"),
            ("nextn: two\n", "nextn: 'two', not a number"),
            ("nextn: 1.5\n", "not a count"),
            ("nextn: 1\nnextn_accept_rates: 0.8\n", "not a list"),
            ("nextn: [\n", "is no YAML"),
        ],
    )
    def test_configurations_that_cannot_be(self, config: str, says: str) -> None:
        with pytest.raises(FileRejectedError, match=re.escape(says)):
            read_file(beside(MTP_TEXT, config))


def test_every_shipped_and_shared_row_is_accepted(shared: Path) -> None:
    """A sample of each kind of table; all of them together are read by ``check``."""
    folder = shared / "tables/aiconfigurator"
    paths = [*sorted(folder.glob("candidates/*.csv.gz"))[::20], *sorted(folder.glob("runs/*/*/pareto.csv"))[::15]]
    from pipelines.reading.inputs import FoundFile, open_file

    for path in paths:
        (reading,) = aiconfigurator.read(open_file(FoundFile(path, path.name)))
        assert reading.rows.filter(pl.col("reason").is_not_null()).is_empty(), path
    assert len(paths) > 8


def as_parquet(text: str, **added: object) -> bytes:
    table, content = pl.read_csv(io.BytesIO(text.encode()), infer_schema_length=None), io.BytesIO()
    table.with_columns(**{name: pl.lit(value) for name, value in added.items()}).write_parquet(content)
    return content.getvalue()


@pytest.mark.parametrize("text", [MTP_TEXT, DISAGG_TEXT], ids=["agg", "disagg"])
def test_parquet_says_what_csv_says(text: str) -> None:
    read = [read_file(InputFile("t", content, "")) for content in (text.encode(), as_parquet(text))]
    assert (read[0].format, read[0].tool_version) == (read[1].format, read[1].tool_version)
    assert read[1].rows.drop("raw").equals(read[0].rows.drop("raw"))
    sliced = read_file(InputFile("t", as_parquet(text), ""), slice_bytes=1)
    assert sliced.rows.equals(read[1].rows)


def test_parquet_that_is_no_table_of_its_is_refused() -> None:
    with pytest.raises(FileRejectedError, match="the meaning of column 'reason' is not known"):
        read_file(InputFile("t", as_parquet(DISAGG_TEXT, reason="mine"), ""))
    with pytest.raises(FileRejectedError, match="the meaning of column 'speed' is not known"):
        read_file(InputFile("t", as_parquet(DISAGG_TEXT, speed=1.0), ""))
    with pytest.raises(FileRejectedError, match="Parquet"):  # damaged: not known as AIConfigurator's
        read_file(InputFile("t", as_parquet(DISAGG_TEXT)[:-40], ""))
