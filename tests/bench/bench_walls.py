"""Predicted KV walls beside measured ones: sessions that fit, and the hit rate by sessions.

    python -m tests.bench.bench_walls [FOLDER_OF_AGENTIC_RUNS] [--hardware FILE] [--models FILE]

Reads measured agentic runs (InferenceX) of any hardware and model of the catalogues. Nothing is tuned:
weights as the checkpoint's precision stores them, the default reserve, the measured mean context.
"""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from pipelines.reading.catalogues import load_hardware, load_models
from pipelines.reading.inputs import find_files
from pipelines.reading.read_inputs import read_inputs
from schemas.catalogue import HardwareCatalogue, ModelCatalogue
from schemas.dtypes import BYTES_PER_KV_ELEMENT
from schemas.options import MappingOptions
from transforms.equations import kv_memory as kv
from transforms.sources.inferencex_facts import weight_formats

SHARED = Path(os.environ.get("AGENT_PARETO_SHARED", Path(__file__).parents[3] / "shared"))
RUNS = SHARED / "tables" / "measured" / "agentic_b200_dsr1"
#: Prompt and tool list that all sessions share: none, and what coding agents are seen to start with.
SHARED_PREFIXES = (0, 10_000, 20_000, 30_000)
DEPLOYMENT = ("hardware", "model", "precision_name", "tp", "dp")


def main(arguments: Sequence[str] = ()) -> None:
    """One block for each deployment that was measured without offload."""
    parser = argparse.ArgumentParser(prog="bench_walls")
    parser.add_argument("folder", nargs="?", type=Path, default=RUNS)
    parser.add_argument("--hardware", type=Path)
    parser.add_argument("--models", type=Path)
    given = parser.parse_args(list(arguments))
    if not given.folder.exists():
        print(f"Measured walls: {given.folder} is not there; name a folder, or set AGENT_PARETO_SHARED")
        return
    hardware, models = load_hardware(given.hardware), load_models(given.models)
    runs = read_inputs(find_files([given.folder]), hardware, models).measured_agentic
    resident = runs.filter(pl.col("offload_mode").fill_null("off") == "off", pl.col("tp").is_not_null())
    for key, part in resident.sort("sessions").partition_by(DEPLOYMENT, as_dict=True, maintain_order=True).items():
        _print_deployment(dict(zip(DEPLOYMENT, key, strict=True)), part, hardware, models)


def _print_deployment(
    what: dict[str, object], runs: pl.DataFrame, hardware: HardwareCatalogue, models: ModelCatalogue
) -> None:
    gpu, spec = hardware.get(str(what["hardware"])), models.get(str(what["model"]))
    tp, dp = int(str(what["tp"])), int(str(what["dp"] or 1))
    prefix = {"deepseek-r1": "dsr1", "kimi-k2-5": "kimik2.5"}.get(spec.slug, spec.slug)
    model_name = str(runs["model_name"][0])
    linear, experts = weight_formats(prefix, str(what["precision_name"]), gpu.slug.partition("-")[0], model_name)
    reserve = MappingOptions().reserve_fraction
    weights = kv.weights_bytes_per_rank(spec.non_expert_bytes(linear), spec.expert_bytes(experts), dp)
    left = kv.available_bytes_per_rank(tp, float(gpu.hbm_bytes), reserve, weights)
    context = float(str(runs["mean_input_tokens"].mean()))
    ranks = f"TP{tp}" + (f" DP{dp}" if dp > 1 else "")
    formats = f"linear {linear or 'as stored'}, experts {experts or 'as stored'}"
    print(f"{gpu.slug}, {spec.slug}, {what['precision_name']} ({formats}), {ranks}:")
    print(f"  mean context {context:,.0f} tokens, {left / 1e9:,.0f} GB for KV on a rank")
    rates = runs.select("sessions", "server_gpu_cache_hit_rate").drop_nulls().iter_rows()
    print("  measured hit rate by sessions: " + ", ".join(f"{sessions:.0f}: {rate:.2f}" for sessions, rate in rates))
    for dtype in ("bf16", "fp8"):
        element = BYTES_PER_KV_ELEMENT[dtype]
        fits = []
        for shared in SHARED_PREFIXES:
            session = kv.session_bytes_on_rank(spec.attention, context, element, tp, shared_tokens=shared, paged=True)
            once = kv.kv_bytes_on_rank(spec.attention, shared, element, tp, paged=True)
            fits.append(f"{kv.max_sessions(left - once, session, dp):.0f} (S = {shared:,})")
        print(f"  predicted max_sessions, {dtype} KV, reserve {reserve:g}: " + ", ".join(fits))


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
