"""A program in the place of a Python that has AIConfigurator: it answers from a shipped table and notes questions."""

import json
import sys
from pathlib import Path

import polars as pl

from pipelines.live.questions import Question
from pipelines.reading.catalogues import SHIPPED

VERSION = "0.12.0"
SYSTEMS = {"h200_sxm": ["sglang", "trtllm"], "h100_sxm": ["trtllm"], "gb200": []}
MODELS = ["Qwen/Qwen3-32B", "meta-llama/Meta-Llama-3.1-70B", "meta-llama/Meta-Llama-3.1-8B",
          "nvidia/Llama-3.1-70B-Instruct-FP8", "openai/gpt-oss-120b"]  # fmt: skip
#: Of this model the program dies.
DEADLY = "openai/gpt-oss-120b"
#: A miss is this much slower than the shipped row, in TTFT and TPOT alike.
MISS = 8.0
REFUSAL = "InsufficientMemoryError: the model does not fit"
TABLE = SHIPPED / "tables/aiconfigurator/candidates/h200_sxm__qwen3-32b__isl4000_osl1000__agg.csv.gz"
#: With the standard library alone, so that it starts at once.
_PROGRAM = """#!{python} -IS
import csv, json, os, sys
folder = os.path.dirname(os.path.abspath(__file__))
if sys.argv[2] == "known":
    sys.exit(print(json.dumps({known!r})))
question = json.load(sys.stdin)
with open(folder + "/asked.jsonl", "a") as file:
    file.write(json.dumps(question) + "\\n")
if question["model"] == {deadly!r}:
    os.kill(os.getpid(), 9)
if question["serving_mode"] == "disagg":
    print("a line of its own")
    print(json.dumps({{"reason": {refusal!r}}}))
    sys.exit(3)
with open(folder + "/rows.csv") as file:
    rows = list(csv.DictReader(file))
with open(sys.argv[2], "w") as file:
    table = csv.DictWriter(file, rows[0])
    table.writeheader()
    for prefix in question["prefixes"]:
        slower = {miss} if prefix == 0 and question["isl"] != 4000 else 1
        for row in rows:
            ttft, tpot, steps = float(row["ttft"]) * slower, float(row["tpot"]) * slower, question["osl"] - 1
            rate = int(row["bs"]) / (ttft + tpot * steps) * 1e3
            gpus = int(row["num_total_gpus"])
            table.writerow({{**row, "isl": question["isl"], "osl": question["osl"], "prefix": prefix,
                "ctx_tokens": question["isl"], "ttft": ttft, "tpot": tpot, "request_latency": ttft + tpot * steps,
                "tokens/s/user": 1e3 / tpot, "seq/s": rate, "request_rate": rate, "tokens/s": rate * steps,
                "seq/s/gpu": rate / gpus, "tokens/s/gpu": rate * steps / gpus}})
"""


def install(folder: Path) -> Path:
    """The program in this folder; ``asked`` tells what it was asked."""
    program = folder / "python-with-aiconfigurator"
    known = {"version": VERSION, "systems": SYSTEMS, "models": MODELS}
    text = _PROGRAM.format(python=sys.executable, known=known, deadly=DEADLY, refusal=REFUSAL, miss=MISS)
    program.write_text(text)
    program.chmod(0o755)
    table = pl.read_csv(TABLE, infer_schema_length=None)
    one_prefill = table.filter(pl.col("ctx_tokens") == pl.col("isl"), pl.col("tp") == 4, pl.col("bs") <= 32)
    one_prefill.write_csv(folder / "rows.csv")
    return program


def asked(program: Path) -> list[Question]:
    """The questions so far, in any order."""
    log = program.with_name("asked.jsonl")
    lines = log.read_text().splitlines() if log.exists() else []
    return [Question(**{**content, "prefixes": tuple(content["prefixes"])}) for content in map(json.loads, lines)]
