"""The fewest GPUs that serve a number of sessions, or complete a number of tasks an hour, within limits.

Sessions are spread evenly over the replicas of one configuration: floor or ceil of C/replicas each. The configuration's
curve gives the figures at both shares, or at the next larger load that it tells within the limits; nothing is taken
beyond a curve's last row or its KV wall. So more sessions never need fewer GPUs, and a looser limit never more.
Curves are straight between rows, as they are for operating points; the roofline's operating points are evaluated, and
differ in R by 1 % on average on dense models, and by up to a third on mixtures of experts at less than one session a
rank, where a plan takes the slower R of one.
"""

import polars as pl

from transforms.agent_points.curve.between import IN_FLIGHT, next_name
from transforms.configurations import SCHEDULE_ID
from transforms.equations import closed_loop as loop
from transforms.equations.curve import along, load_of_most_turns, share_between
from transforms.planning.curves import Curves
from transforms.planning.limits import TOLERANCE
from transforms.planning.routed import LEAST_REPLICAS


def fewest_for_sessions(curves: Curves, sessions: int) -> pl.DataFrame:
    """The fewest replicas of each curve that serve so many sessions; curves that cannot are left out.

    A replica of 4 GPUs serves 17 sessions within the limits and an eighteenth not. For 100 sessions that is
    ``ceil(100/17)`` = 6 replicas, 24 GPUs: four serve 17 sessions and two 16, and two more sessions have room.
    """
    c = pl.col
    most = curves.most.group_by(SCHEDULE_ID).agg(c("_most").max())
    least = most.select(SCHEDULE_ID, replicas=(sessions + c("_most") - 1) // c("_most"))
    least = _no_fewer_than_routed(least, curves)
    return curves.share(least, sessions).with_columns(sessions_planned=pl.lit(sessions, pl.Int64))


def fewest_for_tasks(curves: Curves, tasks_per_hour: float) -> pl.DataFrame:
    """The fewest replicas of each curve that complete so many tasks an hour, each at its best number of sessions.

    Of the numbers of sessions that the limits allow, the one that completes most tasks counts.
    """
    c, scenario = pl.col, curves.scenario
    latency_s = c("turn_latency_ms") / 1e3
    rate = 3600.0 * loop.turns_per_s(c("_each"), latency_s, scenario.think_time_s) / scenario.turns
    served = curves.serve(_loads_of_most_turns(curves), "_each").with_columns(_tasks_per_hour=rate)
    best = served.sort(SCHEDULE_ID, "_tasks_per_hour", "_each", descending=[False, True, False])
    best = best.unique(SCHEDULE_ID, keep="first", maintain_order=True)
    replicas = (tasks_per_hour / c("_tasks_per_hour") * (1 - TOLERANCE)).ceil().clip(1, 2.0**53).cast(pl.Int64)
    best = _no_fewer_than_routed(best.with_columns(replicas=replicas), curves)
    replicas = c("replicas")
    return best.with_columns(
        _high="_each", _low="_each", _low_latency_ms="turn_latency_ms",
        sessions_planned=replicas * c("_each"),
    )  # fmt: skip


def _no_fewer_than_routed(plans: pl.DataFrame, curves: Curves) -> pl.DataFrame:
    """Plans with as many replicas as their turns are sent to, where that is more (``routed``)."""
    if LEAST_REPLICAS not in curves.points.columns:
        return plans
    least = curves.points.group_by(SCHEDULE_ID).agg(pl.col(LEAST_REPLICAS).first().alias("_routed"))
    joined = plans.join(least, on=SCHEDULE_ID, maintain_order="left")
    return joined.with_columns(replicas=pl.max_horizontal("replicas", "_routed")).drop("_routed")


def _loads_of_most_turns(curves: Curves) -> pl.DataFrame:
    """Whole numbers of sessions (``_each``) among which each curve completes most turns: the ends of what is allowed,
    and between two rows where turns get slower faster than sessions are added."""
    c, scenario = pl.col, curves.scenario
    low_s, high_s = c("turn_latency_ms") / 1e3, c(next_name("turn_latency_ms")) / 1e3
    low_b, high_b = c(IN_FLIGHT), c(next_name(IN_FLIGHT))
    b = load_of_most_turns(low_b, low_s, high_b, high_s, scenario.think_time_s)
    latency_s = along(low_s, high_s, share_between(b, low_b, high_b))
    rho = loop.activity_fraction(latency_s, scenario.think_time_s)
    best = loop.sessions_that_fill(b, rho, c("_stations"), curves.closed_loop).clip(c("_from"), c("_to"))
    loads = pl.concat_list(c("_from").ceil(), (c("_to") * (1 + TOLERANCE)).floor(), best.floor(), best.ceil())
    ends = curves.allowed.select(SCHEDULE_ID, "_from", "_to", _each=loads).explode("_each")
    whole = ends.filter(
        (c("_each") >= 1) & c("_each").is_between(c("_from") * (1 - TOLERANCE), c("_to") * (1 + TOLERANCE))
    )
    return whole.select(SCHEDULE_ID, c("_each").clip(upper_bound=2.0**53).cast(pl.Int64)).unique()
