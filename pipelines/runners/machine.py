"""What this machine gives a build: cores and memory."""

import os
from pathlib import Path

#: What a thread that reads a file or carries points may need at once: large files are near 1 GB unpacked and typed.
MEMORY_BYTES_PER_THREAD = 2**30
_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def build_threads() -> int:
    """Threads of a build: one for each core that this process may use, as far as its memory goes; at least one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, memory_bytes() // MEMORY_BYTES_PER_THREAD))


def one_thread_a_frame() -> None:
    """Have Polars, not imported yet, work on a frame with one thread: a build works on as many frames as it has cores.

    Pools of all of them took the cores from each other: a fifth of a build's time. What POLARS_MAX_THREADS says rules.
    """
    os.environ.setdefault("POLARS_MAX_THREADS", "1")


def memory_bytes() -> int:
    """Memory of the machine, or of the container that this process is in where that has less."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([machine, *(limit for path in _CGROUP_LIMITS if (limit := _number(path)) is not None)])


def _number(path: Path) -> int | None:
    """The number in a file; None where there is no such file, or no number: ``max`` is no limit."""
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
