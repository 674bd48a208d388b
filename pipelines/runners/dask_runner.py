"""Partitions on a Dask cluster, through prefect-dask: a local one, or one that runs already."""

import importlib.util
from typing import Any

from schemas.errors import UserError

ANSWER_TIMEOUT_S = 10.0


def dask_task_runner(address: str | None, processes: int) -> Any:
    """A task runner on the cluster at ``address``, or on one of processes of this machine, ended with the flow."""
    if importlib.util.find_spec("prefect_dask") is None:
        raise UserError("--runner dask needs Dask: install it with `pip install 'agent-pareto[dask]'`.")
    from prefect_dask.task_runners import DaskTaskRunner

    if address is not None:
        _ask(address)
        return DaskTaskRunner(address=address)
    return DaskTaskRunner(
        cluster_kwargs={
            "n_workers": processes,
            "threads_per_worker": 1,
            "processes": True,
            "dashboard_address": None,
        }
    )


def _ask(address: str) -> None:
    """Raises ``UserError`` where no scheduler answers: asked before any work is done."""
    import distributed

    client: Any = distributed.Client
    try:
        client(address, timeout=ANSWER_TIMEOUT_S).close()
    except (OSError, ValueError) as error:
        raise UserError(
            f"No Dask cluster answers at {address} ({str(error).splitlines()[-1]}): give the address that its "
            "scheduler prints, such as tcp://host:8786."
        ) from error


def dask_threads() -> int:
    """Threads of the cluster that the flow runs on; called inside the flow."""
    from prefect.context import FlowRunContext

    context = FlowRunContext.get()
    client = getattr(context.task_runner, "client", None) if context is not None else None
    workers = client.scheduler_info(n_workers=-1)["workers"].values() if client is not None else ()
    return sum(int(worker["nthreads"]) for worker in workers)
