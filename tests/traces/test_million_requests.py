"""A million requests are fitted in the memory that fifty thousand take, and the work shows as it goes."""

import subprocess
import sys
from pathlib import Path

import pytest

_FIT = """
import resource, sys
from pipelines.cli import main
sys.argv[1:] = ["scenarios", "fit", sys.argv[1], "--out", sys.argv[2]]
try:
    main()
finally:
    print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
_TURNS = 100


def write_trace(path: Path, requests: int) -> None:
    """Sessions of a hundred turns that grow from 5,000 to 45,000 tokens on, one after the other."""
    with path.open("w") as file:
        file.write("session,stream,t,isl,osl,hit_tok,think\n")
        for session in range(requests // _TURNS):
            context, time = 5_000 + session * 7_919 % 40_000, 0.0
            for turn in range(_TURNS):
                output, pause = 50 + (session * 31 + turn * 17) % 900, (session * 13 + turn * 29) % 600 / 10
                found = context - 300 if turn else 0
                file.write(f"s{session},main,{time:.1f},{context},{output},{found},{pause}\n")
                time += pause + output * 0.02 + 1
                context += output + 300


def fit(folder: Path, requests: int) -> tuple[int, str]:
    """Peak memory of the process in kB, and what it printed."""
    trace = folder / f"{requests}.csv"
    write_trace(trace, requests)
    done = subprocess.run(
        [sys.executable, "-c", _FIT, str(trace), str(folder / "fitted.yaml")],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    trace.unlink()
    return int(done.stdout.rsplit("peak", 1)[1]), done.stdout + done.stderr


@pytest.mark.slow
def test_a_million_requests(tmp_path: Path) -> None:
    few, _ = fit(tmp_path, 50_000)
    many, printed = fit(tmp_path, 1_000_000)
    assert "10,000 sessions, 1,000,000 requests" in printed
    assert "Traces, MB read" in printed
    assert many < 1.25 * few
