"""The shape of a replica in an InferenceX row, from what it says of tp, ep, workers and GPUs.

``tp`` GPUs hold a worker. With ``dp_attention`` attention runs data-parallel inside them: each GPU is a rank
of its own and the experts lie over all. An aggregated row of the dashboard gives ``tp*ep`` as both its GPU
counts, which is wrong (Little's law); a disaggregated one gives the GPUs of each pool, and ``tp`` 1 or the
GPUs of a worker where attention is data-parallel. AIConfigurator's reader of the same rows
(``config_adapter/inferencex.py``) takes them in the same way.

An aggregated deployment over several nodes is written in the keys of a prefill pool: its workers and GPUs stand
there, and the keys of the decode pool are 0 or left over from another run (``utils/process_result.py``). Each
worker is a replica.
"""

from dataclasses import dataclass

from transforms.sources.record import Record
from transforms.sources.rows import LARGEST_COUNT


@dataclass(frozen=True)
class Shape:
    """Columns of the shape, and GPUs of both pools (the same GPUs where they are not apart)."""

    columns: dict[str, float]
    prefill_gpus: float
    decode_gpus: float
    disaggregated: bool

    @property
    def gpus(self) -> float:
        """GPUs of the replica."""
        return self.prefill_gpus + self.decode_gpus if self.disaggregated else self.decode_gpus


def shape_of(run: Record, framework: str) -> Shape | None:
    """The shape; None where the row does not say it, which is then the record's problem."""
    disagg = _flag(run, "disagg")
    if disagg is None:
        disagg = False
    return _disaggregated(run, framework) if disagg else _aggregated(run, framework)


def _aggregated(run: Record, framework: str) -> Shape | None:
    if _flag(run, "is_multinode") and _count(run, "num_decode_gpu") == 0 and _count(run, "num_prefill_gpu"):
        return _replicas_over_nodes(run, framework)
    pools = [run.number(f"{pool}_tp") for pool in ("prefill", "decode")]
    if pools[0] != pools[1]:
        run.flag("gpus_do_not_fit_shape", f"prefill_tp is {pools[0]}, decode_tp {pools[1]}, but the row is not disagg")
    pool = "" if run.get("tp") is not None else "decode_"
    tp = _count(run, f"{pool}tp")
    if tp is None:
        run.flag("missing_value", "tp is not given")
        return None
    parts = _dimensions(run, pool, framework, tp)
    return parts and Shape(parts[0], parts[1], parts[1], disaggregated=False)


def _replicas_over_nodes(run: Record, framework: str) -> Shape | None:
    workers, all_gpus = _count(run, "prefill_num_workers"), _count(run, "num_prefill_gpu")
    if not workers or not all_gpus:
        run.flag("missing_value", "prefill_num_workers is not given: how many replicas share the GPUs")
        return None
    parts = _dimensions(run, "prefill_", framework, all_gpus / workers, stated_tp=_count(run, "prefill_tp"))
    return parts and Shape({**parts[0], "replicas": workers}, all_gpus, all_gpus, disaggregated=False)


def _disaggregated(run: Record, framework: str) -> Shape | None:
    columns: dict[str, float] = {}
    gpus: dict[str, float] = {}
    for pool in ("prefill", "decode"):
        workers, all_gpus = _count(run, f"{pool}_num_workers"), _count(run, f"num_{pool}_gpu")
        if not workers or not all_gpus:
            run.flag("missing_value", f"{pool}_num_workers or num_{pool}_gpu is not given: how the GPUs are split")
            return None
        of_worker = all_gpus / workers
        parts = _dimensions(run, f"{pool}_", framework, of_worker, stated_tp=_count(run, f"{pool}_tp"))
        if parts is None:
            return None
        columns |= {f"{pool}_{name}": value for name, value in parts[0].items()} | {f"{pool}_workers": workers}
        gpus[pool] = all_gpus
    return Shape(columns, gpus["prefill"], gpus["decode"], disaggregated=True)


def _dimensions(
    run: Record, pool: str, framework: str, gpus: float, stated_tp: float | None = None
) -> tuple[dict[str, float], float] | None:
    """(dimensions, GPUs) of one worker. ``gpus``: those of a disaggregated worker, or ``tp`` of an aggregated one."""
    pp, cp = (_count(run, *names) or 1.0 for names in ((f"{pool}pp", "pp"), (f"{pool}pcp_size", "pcp_size")))
    if (_count(run, f"{pool}dcp_size", "dcp_size") or 1.0) > 1:
        run.flag("unknown_shape", "dcp_size is above 1: context parallelism in decode alone is not supported")
        return None
    if stated_tp is None:
        ranks_and_tp, gpus = gpus, gpus * pp * cp
    else:
        ranks_and_tp = gpus / (pp * cp)
    data_parallel = _flag(run, f"{pool}dp_attention")
    tp = ranks_and_tp if stated_tp is None else stated_tp
    if data_parallel:
        fits, tp, dp = tp in (1.0, ranks_and_tp), 1.0, ranks_and_tp
    else:
        fits, dp = tp == ranks_and_tp, 1.0
    if not fits or ranks_and_tp != int(ranks_and_tp):
        words = "with" if data_parallel else "without"
        run.flag(
            "gpus_do_not_fit_shape",
            f"{pool}tp {tp if not data_parallel else stated_tp:g} {words} attention data parallelism does not make "
            f"{gpus:g} GPUs of a worker",
        )
        return None
    if ranks_and_tp < 1:
        run.flag("not_positive", f"{pool}tp is {ranks_and_tp:g}, must be above 0")
        return None
    experts = _count(run, f"{pool}ep") or 1.0
    over = tp * dp * cp
    if framework == "vllm" and experts > 1:
        experts = over  # a switch in vLLM: on or off
    if over % experts:
        run.flag("experts_do_not_fit_gpus", f"{pool}ep {experts:g} does not divide the {over:g} GPUs of a worker")
        return None
    shape = {"tp": tp, "pp": pp, "dp": dp, "cp": cp, "moe_tp": over / experts, "moe_ep": experts}
    return shape, gpus


def _count(run: Record, *names: str) -> float | None:
    """The first of these that the row gives, a whole number of a size that can be."""
    name = next((name for name in names if run.get(name) is not None), names[0])
    value = run.number(name)
    if value is None or (value == round(value) and 0 <= value <= LARGEST_COUNT):
        return value
    run.flag("not_whole", f"{name} is {value:g}, must be a whole number up to {LARGEST_COUNT:,}")
    return None


def _flag(run: Record, name: str) -> bool | None:
    """True or false, also as text; None where it is not given."""
    value = run.get(name)
    if isinstance(value, bool) or value is None:
        return value
    word = str(value).strip().casefold()
    if word in ("true", "false", ""):
        return word == "true"
    run.flag("unknown_word", f"{name} is {value!r}, neither true nor false")
    return None
