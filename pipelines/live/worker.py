"""Runs in the Python that has AIConfigurator and answers questions; it needs nothing of this project.

``worker.py known`` prints JSON: the version, the systems with their backends, the models.
``worker.py FILE`` reads a question from standard input as JSON and writes the table to FILE.
A question that cannot be answered: exit 3, and the reason as JSON on standard output.
``worker.py resident`` answers a question a line, ``{"question": ..., "table": FILE}`` as JSON, with a line
``{"reason": null or why not, "memory_bytes": ...}``; kernel times that it has read stay in memory for the next one.

Written for AIConfigurator 0.12.0.
"""

import functools
import json
import logging
import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any

#: No limit on latency: what is too slow is seen in the frontier.
UNLIMITED_MS = 1e9
#: Columns that the frames have beside those of the files.
NOT_IN_FILES = ("_per_ops_source", "_moe_comm_fallbacks", "power_coverage")
POOLS = (("(p)", "prefill"), ("(d)", "decode"))


class NoAnswerError(Exception):
    """AIConfigurator has nothing to say; the message says why."""


def known() -> dict[str, Any]:
    """What can be asked for."""
    from aiconfigurator.sdk import common, perf_database

    systems = {
        system: sorted(name for name, versions in backends.items() if versions)
        for system, backends in perf_database.get_supported_databases().items()
    }
    return {"version": version("aiconfigurator"), "systems": systems, "models": sorted(common.DefaultHFModels)}


def answer(question: dict[str, Any]) -> Any:
    """The table of all prefixes of the question, as a pandas frame."""
    import pandas

    tasks = {prefix: _task(question, prefix) for prefix in question["prefixes"]}
    if question["serving_mode"] == "agg":
        frames = [_sweep(task) for task in tasks.values()]
    else:
        rows = pandas.concat([task.run() for task in tasks.values()])
        rows = rows[rows["(p)cp"] == 1]  # a single deployment cannot be asked with another
        if rows.empty:
            raise NoAnswerError("no pair of prefill and decode workers fits these GPUs")
        shapes = rows[[f"{pool}{name}" for pool, _ in POOLS for name in _SHAPE]].drop_duplicates()
        frames = [pandas.DataFrame(_priced(tasks.values(), shapes.to_dict("records")), columns=rows.columns)]
    table = pandas.concat(frames)
    mode = getattr(next(iter(tasks.values())), "database_mode", None)
    if mode is not None:  # what the kernel times were taken from
        table["database_mode"] = getattr(mode, "name", mode)
    return table.drop(columns=[name for name in NOT_IN_FILES if name in table])


def _task(question: dict[str, Any], prefix: int) -> Any:
    """The task that ``aiconfigurator cli default`` builds, with the KV precision where the question names one."""
    from aiconfigurator.sdk.task_v2 import Task

    worker = {
        "model_path": question["model"],
        "system_name": question["system"],
        "backend_name": question["backend"],
        "kvcache_quant_mode": question.get("kv_dtype"),
    }
    roles = ("",) if question["serving_mode"] == "agg" else ("prefill_", "decode_")
    return Task.from_cli(
        serving_mode=question["serving_mode"],
        isl=question["isl"],
        osl=question["osl"],
        prefix=prefix,
        ttft=UNLIMITED_MS,
        tpot=UNLIMITED_MS,
        total_gpus=question["total_gpus"],
        database_mode="SILICON",
        **{f"{role}{name}": value for role in roles for name, value in worker.items()},
    )


def _sweep(task: Any) -> Any:
    """Every point that the sweep of an aggregated task evaluates, not only the best at each TPOT."""
    from aiconfigurator.sdk.sweep import sweep_agg

    task.validate()
    database = task._load_database(task.system_name, task.backend_name, task.backend_version)
    wanted = task.sweep_agg_kwargs(database=database)
    wanted["runtime_config"].tpot = UNLIMITED_MS
    return sweep_agg(**wanted, top_k=0, speculative_profile=task.build_speculative_profile())


_SHAPE = ("tp", "pp", "dp", "moe_tp", "moe_ep", "bs", "workers")
_ARGUMENTS = {"bs": "batch_size", "workers": "num_workers"}


def _priced(tasks: Iterable[Any], shapes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every one of these deployments at every task's workload, those left out that do not fit there or have no data."""
    rows, refusal = [], None
    for task in tasks:
        for shape in shapes:
            try:
                rows.append(_price(task, shape))
            except Exception as error:  # as its sweeps do
                refusal = error
    if not rows and refusal is not None:
        raise refusal
    return rows


def _price(task: Any, shape: dict[str, Any]) -> dict[str, Any]:
    """One deployment at the task's workload.

    A single one lacks the factor for queueing that TTFT has in tables.
    """
    arguments = {
        f"{role}_{_ARGUMENTS.get(name, name)}": int(shape[f"{pool}{name}"]) for pool, role in POOLS for name in _SHAPE
    }
    row: dict[str, Any] = task.run_single_disagg(**arguments)
    waiting = row["ttft"] * (task.autoscale_ttft_correction_factor - 1)
    return {**row, "ttft": row["ttft"] + waiting, "request_latency": row["request_latency"] + waiting}


def main() -> None:
    """See the module."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != here]  # our modules are not its own
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    if sys.argv[1] == "known":
        print(json.dumps(known()))
    elif sys.argv[1] == "resident":
        _answer_lines()
    else:
        reason = why_not(json.load(sys.stdin), sys.argv[1])
        if reason is not None:
            print(json.dumps({"reason": reason}))
            sys.exit(3)


def why_not(question: dict[str, Any], table: str) -> str | None:
    """Writes the answer as CSV, or as Parquet where the file is called so; None, or why there is none."""
    try:
        frame = answer(question)
        frame.to_parquet(table, index=False) if table.endswith(".parquet") else frame.to_csv(table, index=False)
    except (Exception, SystemExit) as error:  # whatever stops it is the question's answer
        return f"{'' if isinstance(error, NoAnswerError) else f'{type(error).__name__}: '}{error}"
    return None


def _answer_lines() -> None:
    """Answers until the lines end. What AIConfigurator prints goes to standard error."""
    import resource

    answers, sys.stdout = sys.stdout, sys.stderr
    _read_databases_once()
    for line in sys.stdin:
        asked = json.loads(line)
        reason = why_not(asked["question"], asked["table"])
        memory = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps({"reason": reason, "memory_bytes": memory}), file=answers, flush=True)


def _read_databases_once() -> None:
    """Which databases there are is read from 400 files of YAML for every task: here once, and by the quick parser."""
    import yaml
    from aiconfigurator.sdk import perf_database

    yaml.SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # type: ignore[misc]
    perf_database.get_supported_databases = functools.cache(perf_database.get_supported_databases)


if __name__ == "__main__":
    main()
