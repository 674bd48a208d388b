"""Partitions on Dask: the same releases as by threads, on a local cluster and on one that runs already."""

import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipelines.lake.reader import current_release
from pipelines.runners.dask_runner import dask_task_runner
from schemas.errors import UserError
from schemas.options import BuildOptions
from tests.pipelines.builds import build, file_hashes, release_content, write_small_tables

ROOT = Path(__file__).parents[3]
needs_dask = pytest.mark.skipif(
    importlib.util.find_spec("prefect_dask") is None, reason="prefect-dask is not installed (the extra `dask`)"
)
CLUSTER = """
import sys
from distributed import LocalCluster

if __name__ == "__main__":
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    print(cluster.scheduler_address, *(nanny.pid for nanny in cluster.workers.values()), flush=True)
    sys.stdin.read()
"""


def environment() -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    return {**inherited, "PREFECT_HOME": os.environ["PREFECT_HOME"], "PYTHONPATH": str(ROOT)}


def run_command(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """`agent-pareto build` of the small tables into ``folder / "lake"``."""
    command = [sys.executable, "-c", "from pipelines.cli import main; main()", "build", "--tables", "tables"]
    return subprocess.run(
        [*command, *arguments], cwd=folder, env=environment(), capture_output=True, text=True, timeout=240, check=False
    )


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, list[int]]]:
    """A Dask cluster in another process: its address and the process ids of its workers."""
    script = folder / "cluster.py"
    script.write_text(CLUSTER)
    process = subprocess.Popen(
        [sys.executable, str(script)], env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        address, *workers = process.stdout.readline().split()
        yield address, [int(pid) for pid in workers]
    finally:
        process.communicate(timeout=60)


@pytest.mark.slow
@needs_dask
@pytest.mark.prefect
def test_a_local_cluster_gives_the_release_of_threads(tmp_path: Path) -> None:
    tables = write_small_tables(tmp_path / "tables", rows=12)
    ran = run_command(tmp_path, "--runner", "dask")
    assert ran.returncode == 0, ran.stderr
    assert "Traceback" not in ran.stderr
    threads = BuildOptions(tables=(tables,), out=tmp_path / "threads")
    build(threads)
    assert release_content(tmp_path / "lake") == release_content(threads.out)
    dask_files = file_hashes(current_release(tmp_path / "lake").path)
    assert dask_files == file_hashes(current_release(threads.out).path)  # to the byte


@pytest.mark.slow
@needs_dask
@pytest.mark.prefect
def test_a_cluster_by_address_survives_the_death_of_a_worker(tmp_path: Path) -> None:
    tables = write_small_tables(tmp_path / "tables", rows=12)
    killed = threading.Event()

    def kill_when_work_begins(worker: int) -> None:
        for _ in range(10_000):
            if any((tmp_path / "lake").glob("releases/.staging-*/serving_points")):
                os.kill(worker, signal.SIGKILL)
                killed.set()
                return
            time.sleep(0.01)

    with cluster(tmp_path) as (address, workers):
        thread = threading.Thread(target=kill_when_work_begins, args=workers[:1])
        thread.start()
        ran = run_command(tmp_path, "--runner", "dask", "--dask-address", address)
        thread.join()
        assert killed.is_set()
        assert ran.returncode == 0, ran.stderr
    threads = BuildOptions(tables=(tables,), out=tmp_path / "threads")
    build(threads)
    assert release_content(tmp_path / "lake") == release_content(threads.out)


@pytest.mark.slow
@needs_dask
@pytest.mark.prefect
def test_no_cluster_at_the_address(tmp_path: Path) -> None:
    write_small_tables(tmp_path / "tables", rows=12)
    ran = run_command(tmp_path, "--runner", "dask", "--dask-address", "tcp://127.0.0.1:9")
    assert ran.returncode == 1
    assert "Error: No Dask cluster answers at tcp://127.0.0.1:9" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert not (tmp_path / "lake" / "current.json").exists()


def test_without_dask_a_sentence_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'agent-pareto\[dask\]'"):
        dask_task_runner(None, 2)


def test_an_address_without_dask_is_refused(tmp_path: Path) -> None:
    ran = run_command(tmp_path, "--dask-address", "tcp://127.0.0.1:9")
    assert ran.returncode == 1
    assert "Error: --dask-address is for --runner dask" in ran.stderr
