"""A build that dies at a chosen moment, as ``kill -9`` would end it. Importable without pytest.

Moments are the calls of the stages' functions, the steps of publishing, and the calls that change the disk: the
name of what is called, and the how manieth call of it this is.
"""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from pipelines.building import build_inputs, carrying, incremental, stages
from pipelines.lake import publish, release
from pipelines.reading import inputs
from schemas.options import BuildOptions
from tests.pipelines import builds

FUNCTIONS: tuple[tuple[ModuleType, str], ...] = (
    (build_inputs, "find"), (inputs, "open_file"), (build_inputs, "read_inputs"), (build_inputs, "synthesize"),
    (stages, "plan_partitions"), (incremental, "content_sha256"), (stages, "link_part"), (stages, "write_parts"),
    (carrying, "_read_serving_points"), (carrying, "carry_partition"), (carrying, "operating_points"),
    (carrying, "conform"), (carrying, "write_parts"), (stages, "adopt"), (stages, "publish"),
    (release, "tidy"), (release, "encode"), (builds, "compute"), (publish, "reached"),
)  # fmt: skip
DISK_CALLS = ("fsync", "rename", "replace", "unlink", "link", "mkdir", "pwrite")


def fix_code() -> None:
    """Somebody who edits the code while the tests run changes no hash."""
    incremental.code_sha256 = lambda: "the code"  # type: ignore[assignment]


def build_and_die(options: dict[str, Any], at: tuple[str, int] | None, moments: Path | None = None) -> None:
    """Build, and die at a moment; write the names of all calls."""
    fix_code()
    names: list[str] = []
    lock = threading.Lock()

    def watched(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            with lock:
                moment = f"reached:{args[0]}" if name == "reached" else name
                if (moment, names.count(moment)) == at:
                    os.kill(os.getpid(), signal.SIGKILL)
                names.append(moment)
            return original(*args, **kwargs)

        return call

    for module, name in FUNCTIONS:
        setattr(module, name, watched(name, getattr(module, name)))
    for name in DISK_CALLS:
        setattr(os, name, watched(f"os.{name}", getattr(os, name)))
    builds.build(BuildOptions.model_validate(options))
    if moments is not None:
        moments.write_text("\n".join(names))


def build_often(options: dict[str, Any], times: int) -> None:
    """Build one time after the other, everything anew."""
    fix_code()
    for _ in range(times):
        builds.build(BuildOptions.model_validate(options), full=True)
