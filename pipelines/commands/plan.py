"""`agent-pareto plan`: the fewest GPUs that serve a number of agents within limits."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.commands.model_options import CommandOfModels, given, option_name
from pipelines.commands.shared_options import (
    DEFAULT_LAKE,
    HardwareOption,
    LakeOption,
    ModelOption,
    RecordsFormatOption,
    ScenarioOption,
    WeightsOption,
)

if TYPE_CHECKING:
    from pydantic import BaseModel

    from transforms.planning.limits import Limits, Loop

_LIMIT_OPTIONS = {
    "turn_latency": "--max-turn-latency",
    "task_time": "--max-task-time",
    "tokens_per_s_per_user": "--min-tokens-per-s-per-user",
}
_HEADERS = (
    "hardware", "GPUs", "replicas", "replica", "weights", "KV", "engine", "sessions\neach", "turn\ns", "task\ns",
    "tokens/s\nper user", "tasks/h", "KV\nused", "limit", "more\nsessions", "error", "by",
)  # fmt: skip
_CAPTION = (
    "Figures of the fuller replicas, tasks/h of all. more sessions: what these GPUs can take beyond; error: expected\n"
    "mean error of the turn latency. KV used: sessions over those that memory can serve; only KV that must be in\n"
    "memory counts, which is that of turns in flight where idle KV may be evicted (lru)."
)
#: What the column ``limit`` says, as far as the table has it.
_LIMITS_IN_WORDS = {
    "one_replica": "a single replica does; there are no fewer",
    "cache_hit_rate": "the cache's hit rate falls between this row of the table and the next, nothing is read between",
    "table_range": "the table's rows end there",
    "kv_memory": "GPU memory holds the KV of no more",
    "decode_kv_memory": "memory of the decode pool holds the KV of no more",
    "prefill_kv_memory": "memory of the prefill pool holds the KV of no more",
    "host_memory": "host memory holds the idle KV of no more",
    "turn_latency": "more would be slower than --max-turn-latency",
    "task_time": "more would take longer than --max-task-time",
    "tokens_per_s_per_user": "more would be slower than --min-tokens-per-s-per-user",
}
_ROOFLINE = "roofline"
_DO_NOT_RANK = "~ roofline: what peak rates allow; do not rank these rows against rows by tables."


class TakesPlanLimits(CommandOfModels):
    """A command that takes what a plan must keep to."""

    def models(self) -> "Sequence[type[BaseModel]]":
        from schemas.options import PlanLimits

        return (PlanLimits,)


def plan_command(
    context: typer.Context,
    sessions: Annotated[int, typer.Option("--sessions", min=1, max=10**9, help="Concurrent agents to serve.")],
    model: ModelOption,
    scenario: ScenarioOption,
    hardware: HardwareOption = None,
    weight_dtype: WeightsOption = None,
    lake: LakeOption = DEFAULT_LAKE,
    output_format: RecordsFormatOption = "table",
) -> None:
    """Find the fewest GPUs of each hardware that serve so many agents, and what stops fewer.

    Sessions are spread evenly over replicas of one configuration. The limits hold on the fuller replicas; nothing is
    taken beyond what a table covers or memory holds. Hardware that cannot do it is listed with the reason and the
    nearest value that would do. Exit code 1 where none can.
    """
    from pipelines.answering.release_contents import open_contents
    from pipelines.commands.output import print_records
    from schemas.errors import UserError
    from schemas.options import PlanLimits
    from transforms.planning.fewest_gpus import COLUMNS, fewest_gpus
    from transforms.planning.limits import Limits, Loop

    limits = Limits(**given(context, PlanLimits).model_dump())
    for name, value in given(context, PlanLimits):
        if value is not None and not (math.isfinite(value) and value > 0):
            raise UserError(f"{option_name(PlanLimits, name)} {value}: must be a finite number above 0.")
    contents = open_contents(lake)
    slug, agents = contents.model_slug(model), contents.scenario(scenario)
    loop = Loop(agents.turns, agents.think_time_s, agents.output_tokens_per_turn)
    points = contents.read_precision("agent_points", hardware or (), slug, agents.slug, weight_dtype)
    plans = fewest_gpus(points, sessions, limits, loop, contents.options.closed_loop).to_dicts()
    for row in plans:
        row["reason"] = None if row["feasible"] else reason_in_words(row, limits, loop)
    if output_format == "table":
        _print_table(plans)
    else:
        print_records(plans, (*COLUMNS, "reason"), output_format)
    if not any(row["feasible"] for row in plans):
        raise typer.Exit(1)


def reason_in_words(row: dict[str, Any], limits: "Limits", loop: "Loop") -> str:
    """Why hardware has no plan, and the nearest value that would do where there is one."""
    from transforms.planning.limits import at_latency

    reason, tp = row["infeasible_reason"], row["least_tp_that_fits"]
    if reason == "turn_latency":
        fastest_s = row["least_turn_latency_s"]
        missed = [name for name, allowed_s in limits.turn_latencies_s(loop).items() if allowed_s < fastest_s]
        nearest = " ".join(
            f"{_LIMIT_OPTIONS[name]} {_rounded(at_latency(name, fastest_s, loop), up=not name.startswith('tokens'))}"
            for name in missed
        )
        return f"Its fastest configuration takes {fastest_s:.4g} s a turn; {nearest} would do."
    sentences = {
        "weights_do_not_fit": "The weights do not fit on any of its configurations"
        + ("." if tp is None else f": a rank needs at least {tp} GPUs."),
        "context_too_long": "The scenario's longest context is beyond what the model can take.",
        "replica_larger_than_cluster": "Every replica is larger than the cluster of the build (--cluster-gpus).",
        "kv_capacity": "Memory holds the KV of no session.",
        "kv_capacity_below_table": "Memory holds fewer sessions than its tables begin at.",
        "host_memory_capacity": "Host memory holds the idle KV of no session.",
        "fewer_sessions_than_table": "So many sessions cannot be spread so that each replica is within its tables and "
        f"memory; --sessions {row['least_sessions']} would do.",
        "table_range": "No whole number of sessions lies within its tables.",
    }
    return sentences.get(reason, f"None of its points can be run: {reason}.")


def _rounded(value: float, up: bool) -> str:
    """Four digits, on the side that still does."""
    step = 10.0 ** (math.floor(math.log10(value)) - 3)
    whole = math.ceil(value / step) if up else math.floor(value / step)
    return f"{whole * step:.10g}"


def _print_table(plans: list[dict[str, Any]]) -> None:
    from pipelines.terminal import print_table

    feasible = [row for row in plans if row["feasible"]]
    if feasible:
        print_table(_HEADERS, (_cells(row) for row in feasible), caption=legend(feasible))
    for row in plans:
        if not row["feasible"]:
            print(f"{row['hardware']}: {row['reason']}")


def legend(plans: list[dict[str, Any]]) -> str:
    """What stands under a table of these plans."""
    limits = {row["binding_limit"] for row in plans}
    said = [f"  {name}: {text}" for name, text in _LIMITS_IN_WORDS.items() if name in limits]
    lines = [_CAPTION, "limit: what stops a replica from taking more sessions, so that fewer GPUs do not do.", *said]
    if len({row["transfer_method"] == _ROOFLINE for row in plans}) == 2:
        lines.append(_DO_NOT_RANK)
    return "\n".join(lines)


def _cells(row: dict[str, Any]) -> list[str]:
    from pipelines.commands.shapes import shape_of

    used, error = row["kv_utilization_fraction"], row["expected_error_fraction"]
    return [
        row["hardware"],
        f"{row['gpus']:,}",
        f"{row['replicas']:,}",
        shape_of(row),
        row["weight_dtype"],
        row["kv_dtype"],
        row["backend"],
        f"{row['sessions_per_replica']:,}",
        f"{row['turn_latency_ms'] / 1e3:.3g}",
        f"{row['task_time_s']:.3g}",
        f"{row['e2e_tokens_per_s_per_user']:.3g}",
        f"{row['tasks_per_hour']:,.0f}" if row["tasks_per_hour"] >= 100 else f"{row['tasks_per_hour']:.3g}",
        "-" if used is None else f"{100 * used:.0f} %",
        row["binding_limit"],
        f"{row['headroom_sessions']:,}",
        "-" if error is None else f"{100 * error:.1f} %",
        f"~ {_ROOFLINE}" if row["transfer_method"] == _ROOFLINE else row["transfer_method"],
    ]
