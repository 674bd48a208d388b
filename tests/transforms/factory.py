"""Serving points and settings for the tests of the transforms: from shipped tables, from text, from the roofline."""

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache

import polars as pl

from pipelines.reading.catalogues import SHIPPED, load_hardware, load_models, load_scenarios
from pipelines.reading.inputs import find_files, open_file
from schemas.catalogue import HardwareCatalogue
from schemas.hardware import Hardware
from schemas.models import ModelSpec
from schemas.options import MappingOptions, RooflinePreset
from schemas.scenarios import Scenario
from tests.sources.judging import judged_rows
from tests.sources.whole import read_file
from transforms.agent_points.carry import Setting, carry_points, carry_prepared
from transforms.agent_points.prepare import prepare_points
from transforms.frontier import mark_frontiers
from transforms.operating_points.points import operating_points
from transforms.serving_points.judge import new_points
from transforms.sources.rows import InputFile
from transforms.synthesis.points import synthesize_points

TABLES = SHIPPED / "tables" / "aiconfigurator"
#: The run that mixes TRT-LLM, vLLM and SGLang rows, agg and disagg.
MIXED_BACKENDS = "runs/h200_sxm__llama-3.1-8b__isl4000_osl1000__backend-auto"


def identity_scenario(
    isl_tokens: float, osl_tokens: float, prefix_tokens: float = 0.0, hit_rate: float = 1.0
) -> Scenario:
    """model.md 5.8: N = 1, Z = 0, h = 1, L0 = ISL, n1 = ISL - prefix, OSL = osl.

    At another ``hit_rate`` a miss finds the same prefix, shared by all tasks, and so is the same turn.
    """
    return Scenario(
        slug="identity",
        turns=1,
        think_time_s=0,
        initial_prompt_tokens=isl_tokens,
        new_tokens_per_turn=0,
        output_tokens_per_turn=osl_tokens,
        first_turn_new_tokens=isl_tokens - prefix_tokens,
        shared_prefix_tokens=prefix_tokens if hit_rate < 1.0 else 0.0,
        cache={"hit_rate": hit_rate},  # type: ignore[arg-type]
    )


def article_scenario(slug: str = "code-agent", **changed: object) -> Scenario:
    """A shipped scenario, some of its fields changed."""
    (scenario,) = load_scenarios([slug])
    return scenario.model_copy(update=changed)


def hardware(slug: str, **changed: object) -> Hardware:
    return load_hardware().get(slug).model_copy(update=changed)


def model(slug: str, **changed: object) -> ModelSpec:
    return load_models().get(slug).model_copy(update=changed)


def setting(gpu: str | Hardware, spec: str | ModelSpec, scenario: Scenario, **options: object) -> Setting:
    """What all points of one call share; the options are those of a build."""
    own = hardware(gpu) if isinstance(gpu, str) else gpu
    return Setting(
        scenario,
        model(spec) if isinstance(spec, str) else spec,
        HardwareCatalogue((own,)),
        MappingOptions.model_validate(options),
    )


@cache
def shipped_points(*paths: str) -> pl.DataFrame:
    """Serving points of shipped tables, files or folders below ``data/tables/aiconfigurator``."""
    points: list[pl.DataFrame] = []
    seen: set[str] = set()
    for found in find_files([TABLES / path for path in paths]):
        good, bad = judged(open_file(found))
        assert bad.is_empty()
        points.append(new_points(good, seen))
    return pl.concat(points)


def judged(file: InputFile) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Serving points and quarantined rows of a file, repeats included."""
    reading = read_file(file)
    return judged_rows(reading.rows, file.path, reading.tool_version)


def input_file(content: str | bytes, path: str = "pareto.csv") -> InputFile:
    raw = content.encode() if isinstance(content, str) else content
    return InputFile(path, raw, hashlib.sha256(raw).hexdigest())


def roofline_points(gpu: str, spec: str, preset: RooflinePreset = "article", **shape: object) -> pl.DataFrame:
    """Synthesised serving points of one GPU and model; ``shape`` picks rows by column."""
    points = synthesize_points([(hardware(gpu), model(spec))], load_hardware(), preset)
    return points.filter(*(pl.col(name) == value for name, value in shape.items()))


def agent_points(points: pl.DataFrame, shared: Setting) -> pl.DataFrame:
    return mark_frontiers(carry_points(points, shared))


def solved(points: pl.DataFrame, shared: Setting) -> pl.DataFrame:
    """Operating points of the serving points."""
    prepared = prepare_points(points, shared.spec, shared.hardware)
    return operating_points(carry_prepared(prepared, shared), shared, prepared.lookups)


AIC_COLUMNS = (
    "model", "isl", "osl", "prefix", "concurrency", "request_rate", "bs", "global_bs", "ttft", "tpot",
    "request_latency", "encoder_latency", "encoder_memory", "seq/s", "seq/s/gpu", "tokens/s", "tokens/s/gpu",
    "tokens/s/user", "num_total_gpus", "tp", "pp", "dp", "moe_tp", "moe_ep", "cp", "parallel", "gemm",
    "kvcache", "fmha", "moe", "comm", "memory", "balance_score", "num_ctx_reqs", "num_gen_reqs", "num_tokens",
    "ctx_tokens", "gen_tokens", "backend", "version", "system", "power_w",
)  # fmt: skip


def aic_row(**given: object) -> dict[str, str]:
    """One row of an aggregated AIConfigurator table of Qwen3-32B on H200s; what follows from others is worked out."""
    row: dict[str, object] = {
        "model": "Qwen/Qwen3-32B-FP8", "isl": 4000, "osl": 501, "prefix": 0, "encoder_latency": 0.0,
        "encoder_memory": 0.0, "tp": 4, "pp": 1, "dp": 1, "moe_tp": 1, "moe_ep": 1, "cp": 1, "gemm": "fp8_block",
        "kvcache": "fp8", "fmha": "fp8", "moe": "fp8_block", "comm": "half", "memory": 100.0,
        "balance_score": 1.0, "num_ctx_reqs": 1, "backend": "trtllm", "version": "1.2.0", "system": "h200_sxm",
        "power_w": 0.0, **given,
    }  # fmt: skip
    tp, pp, dp, bs = (int(str(row[name])) for name in ("tp", "pp", "dp", "bs"))
    derived: dict[str, object] = {
        "concurrency": bs * dp * pp, "global_bs": bs * dp, "request_rate": row["seq/s"],
        "num_total_gpus": tp * pp * dp, "parallel": f"tp{tp}pp{pp}dp{dp}etp1ep1", "num_gen_reqs": bs - 1,
        "num_tokens": int(str(row["isl"])) + bs - 1, "ctx_tokens": row["isl"], "gen_tokens": bs - 1,
    }  # fmt: skip
    row = derived | row
    return {name: str(row[name]) for name in AIC_COLUMNS}


def csv_text(rows: Sequence[Mapping[str, str]]) -> str:
    header = list(rows[0])
    return "\n".join([",".join(header), *(",".join(row[name] for name in header) for row in rows)]) + "\n"
