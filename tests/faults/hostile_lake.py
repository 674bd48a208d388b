"""A lake in which all names are hostile: GPUs, models, engines, versions, settings, scenarios, prices."""

import csv
from pathlib import Path

import yaml

from pipelines.reading.catalogues import load_models
from schemas.options import BuildOptions
from tests.pipelines.builds import build

#: What a name that is run would leave behind.
TRACE = "INJECTED"
NAMES = (
    f"</script><script>window.{TRACE}=1</script>",
    f"<img src=x onerror='window.{TRACE}=1'>",
    "\x1b[31mred\x1b]0;title\x07\x1b]8;;http://example.invalid\x1b\\x\x9b1m",
    "[red]x[/red] [/nothing] [link=http://example.invalid]y",
    '=HYPERLINK("http://example.invalid")',
    "+1+1",
    "-1",
    "@SUM(1)",
    "../../escaped",
    "/tmp/escaped",
    "..",
    f"a\ntouch {TRACE}\n#",
    f"$(touch {TRACE})",
    f"`touch {TRACE}`",
    f"'; touch {TRACE}; '",
    f'"; touch {TRACE}; "',
    "\u202egnp.exe\u2066\u200b",
    "a=b",
    "%2F..%2Fescaped",
    "*",
    "__HIVE_DEFAULT_PARTITION__",
    "caf\u00e9",
    "cafe\u0301",
    "null",
    "\U0001f600 name",
    "x" * 10_000,
)
LONGEST = 300  #: of a word in a table's ``source.yaml``, and of a price's source

_SIDECAR = """
format: generic
weight_dtype: fp8
kv_dtype: fp8
attention_dtype: bf16
tp: 4
columns:
  hardware: {column: gpu}
  model: {column: model}
  backend: {column: engine}
  backend_version: {column: version}
  setting: {column: setting}
  isl_tokens: {column: prompt, unit: tokens}
  osl_tokens: {column: output, unit: tokens}
  concurrency_reported: {column: users, unit: requests}
  ttft_ms: {column: ttft, unit: s}
  tpot_ms: {column: tpot, unit: ms}
  output_tokens_per_s: {column: tok/s, unit: tokens/s}
"""
_RUNS = ((8, 0.42, 14.1, 551.0), (16, 0.55, 17.0, 909.0), (32, 0.90, 23.5, 1303.0))


def write_inputs(folder: Path) -> BuildOptions:
    """The files of all names; the options that build a lake of them."""
    tables = folder / "tables"
    tables.mkdir(parents=True)
    _write(folder / "hardware.yaml", {"hardware": [_gpu(number, name) for number, name in enumerate(NAMES)]})
    _write(folder / "models.yaml", {"models": [_model(number, name) for number, name in enumerate(NAMES)]})
    _write(folder / "scenarios.yaml", {"scenarios": [_SCENARIO | {"name": "".join(NAMES[:4]), "source": NAMES[3]}]})
    prices = [{"hardware": f"gpu-{number}", "usd_per_gpu_hour": 2.0, "source": name[:LONGEST], "date": "2026-03-01"}
              for number, name in enumerate(NAMES)]  # fmt: skip
    _write(folder / "prices.yaml", {"prices": prices})
    (tables / "source.yaml").write_text(_SIDECAR, encoding="utf-8")
    with (tables / "runs.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("gpu", "model", "engine", "version", "setting", "prompt", "output", "users", "ttft", "tpot",
                       "tok/s"))  # fmt: skip
        for number, name in enumerate(NAMES):
            rows.writerows((f"gpu-{number}", f"m-{number}", name, name, name, 4000, 1000, *run) for run in _RUNS)
    return BuildOptions(
        tables=(tables,), hardware=folder / "hardware.yaml", models=folder / "models.yaml",
        scenarios=(str(folder / "scenarios.yaml"),), prices=folder / "prices.yaml", synthesize=False,
        out=folder / "lake",
    )  # fmt: skip


def build_lake(folder: Path) -> Path:
    options = write_inputs(folder)
    build(options, full=True)
    return options.out


def _write(path: Path, content: object) -> None:
    path.write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")


def _gpu(number: int, name: str) -> dict[str, object]:
    return {
        "slug": f"gpu-{number}", "name": f"{name} gpu", "vendor": name, "aliases": [f"{name} alias"],
        "hbm_bytes": 151_397_597_184, "hbm_printed_gb": 141.0, "hbm_bandwidth_bytes_per_s": 4.8e12,
        "flops_per_s": {"bf16": 9.89e14, "fp8": 1.979e15}, "gpus_per_node": 8, "scale_up_bytes_per_s": 4.5e11,
        "scale_out_bytes_per_s": 5e10, "host_link_bytes_per_s": 6.4e10, "sources": {"hbm_bytes": name},
    }  # fmt: skip


def _model(number: int, name: str) -> dict[str, object]:
    llama = load_models().get("llama-3-1-70b").model_dump(mode="json", exclude_none=True)
    return llama | {"slug": f"m-{number}", "name": f"{name} model", "aliases": [f"org{number}/{name}"], "source": name}


_SCENARIO = {
    "slug": "plain", "turns": 8.0, "think_time_s": 0.5, "initial_prompt_tokens": 16000.0,
    "first_turn_new_tokens": 500.0, "new_tokens_per_turn": 500.0, "output_tokens_per_turn": 128.0,
    "output_retention_fraction": 1.0, "cache_hit_rate": 0.95, "sessions": 32, "gpus": 8,
}  # fmt: skip
