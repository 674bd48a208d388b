"""What one pool of a replica holds: bytes of a session, bytes left for KV, sessions that fit (model.md 4)."""

from dataclasses import dataclass

import numpy as np

from schemas.models import ModelSpec
from schemas.options import MappingOptions, Pool
from schemas.scenarios import Scenario
from transforms.agent_points.mixing import mean_over_sessions, members
from transforms.agent_points.rows.gpu import Gpu
from transforms.agent_points.rows.rows import Rows
from transforms.equations import kv_memory as kv
from transforms.equations.context import turn_profile
from transforms.numbers import Number, maximum, where

#: Private figures of ``pool_memory``.
POOL_FIGURES = ("_shared_bytes", "_weights_fit", "_fit_mean", "_fit_p95", "_fit_peak")


@dataclass(frozen=True)
class PoolRanks:
    """The ranks of one pool, one number a row; every figure but ``ranks`` is of one rank."""

    ranks: Number
    tp: Number
    gpus: Number
    dp: Number
    cp: Number
    gpu: Gpu

    @classmethod
    def aggregated(cls, rows: Rows) -> "PoolRanks":
        """The one pool of an aggregated replica."""
        dp = rows["dp"]
        return cls(dp, rows["tp"], rows["gpus_per_replica"] / dp, dp, rows["cp"], Gpu.of_rows(rows, "decode"))

    @classmethod
    def disaggregated(cls, rows: Rows, name: Pool) -> "PoolRanks":
        """The ``prefill`` or ``decode`` pool of a disaggregated replica."""
        workers, tp, pp, dp, cp = (rows[f"{name}_{part}"] for part in ("workers", "tp", "pp", "dp", "cp"))
        return cls(workers * dp, tp, tp * pp * cp, dp, cp, Gpu.of_rows(rows, name))


@dataclass(frozen=True)
class SessionBytes:
    """Bytes of one session on a rank, head copies counted, the shared prefix not; ``shared`` is its own."""

    mean: Number
    peak: Number
    slope: Number
    shared: Number


def session_bytes(
    rows: Rows, scenario: Scenario, spec: ModelSpec, pool: PoolRanks, options: MappingOptions
) -> SessionBytes:
    """A session at its mean and peak context, and the slope of its KV at the mean; the shared prefix.

    Of a mix the mean over the sessions that are there, and the prefixes of all its scenarios.
    """
    element, groups, paged = rows["_kv_element_bytes"], spec.attention, options.kv_layout == "paged"
    each = [member.scenario for member in members(scenario)]

    def bytes_at(context: str) -> Number:
        return mean_over_sessions(
            rows,
            scenario,
            [
                kv.session_bytes_on_rank(
                    groups, getattr(own, context), element, pool.tp, shared_tokens=own.shared_prefix_tokens, paged=paged
                )
                for own in each
            ],
        )

    slopes = [
        kv.kv_slope_bytes_per_token(groups, own.mean_context_tokens, element, pool.tp, paged=paged) for own in each
    ]
    shared = [kv.kv_bytes_on_rank(groups, own.shared_prefix_tokens, element, pool.tp, paged=paged) for own in each]
    return SessionBytes(
        mean=bytes_at("mean_context_tokens"),
        peak=bytes_at("peak_context_tokens"),
        slope=mean_over_sessions(rows, scenario, slopes),
        shared=sum(shared),
    )


def weights_on_rank(rows: Rows, pool: PoolRanks) -> Number:
    """Bytes of the weights on one rank: the whole non-expert part, its share of the experts.

    Context parallelism splits the tokens of a prompt and their KV, not the weights: each of its GPUs holds
    the non-expert part once more. The experts lie on all GPUs.
    """
    on_each = rows["_non_expert_bytes"] + rows["_vision_bytes"]
    return kv.weights_bytes_per_rank(on_each * pool.cp, rows["_expert_bytes"], pool.dp)


def usable_per_gpu(pool: PoolRanks, options: MappingOptions) -> Number:
    """Bytes of one GPU for weights and KV, after the reserve and the runtime's own memory."""
    return pool.gpu.hbm_bytes * (1.0 - options.reserve_fraction) - options.overhead_bytes_per_gpu


def available_on_rank(rows: Rows, pool: PoolRanks, options: MappingOptions) -> Number:
    """Bytes of one rank for KV; negative where the weights do not fit."""
    return kv.available_bytes_per_rank(
        pool.gpus, pool.gpu.hbm_bytes, options.reserve_fraction, weights_on_rank(rows, pool),
        options.overhead_bytes_per_gpu,
    )  # fmt: skip


def pool_memory(
    rows: Rows, scenario: Scenario, spec: ModelSpec, pool: PoolRanks, options: MappingOptions
) -> dict[str, Number]:
    """Bytes of a session and bytes for KV, and the sessions that fit (``_fit_mean``, ``_p95``, ``_peak``)."""
    bytes_ = session_bytes(rows, scenario, spec, pool, options)
    available = available_on_rank(rows, pool, options)
    left = maximum(available - bytes_.shared, 0.0)
    spread = bytes_.slope * turn_profile(scenario).context_sd
    fits = available > 0
    least = np.full(len(rows), np.nan)
    if not fits.all():
        least = where(fits, np.nan, kv.least_gpus_that_fit(weights_on_rank(rows, pool), usable_per_gpu(pool, options)))
    return {
        "kv_bytes_per_session_mean": bytes_.mean,
        "kv_bytes_per_session_peak": bytes_.peak,
        "_shared_bytes": pool.ranks * bytes_.shared,
        "kv_bytes_available": pool.ranks * available,
        "_weights_fit": fits,
        "least_tp_that_fits": least,
        "_fit_mean": kv.max_sessions(left, bytes_.mean, pool.ranks),
        "_fit_p95": pool.ranks * kv.sessions_p95_per_rank(left, bytes_.mean, spread),
        "_fit_peak": kv.max_sessions(left, bytes_.peak, pool.ranks),
    }
