"""What one pool of a replica holds: bytes of a session, bytes left for KV, sessions that fit (model.md 4)."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from schemas.catalogue import HardwareCatalogue
from schemas.models import ModelSpec
from schemas.options import MappingOptions, Pool
from transforms.agent_points.agent import Agent
from transforms.agent_points.mixing import mean_over_sessions
from transforms.agent_points.rows.gpu import Gpu
from transforms.agent_points.rows.lookups import Deployed, add_private_columns
from transforms.agent_points.rows.rows import Rows, code
from transforms.cache import evicts
from transforms.equations import kv_memory as kv
from transforms.equations.kv_room import server_bytes_per_rank
from transforms.numbers import Number

#: Private figures of ``pool_memory``.
POOL_FIGURES = ("_shared_bytes", "_weights_fit", "_fit_mean", "_fit_p95", "_fit_peak")


@dataclass(frozen=True)
class PoolRanks:
    """The ranks of one pool, one number a row; every figure but ``ranks`` is of one rank.

    ``is_whole``: whether the pool is the replica.
    """

    ranks: Number
    tp: Number
    gpus: Number
    dp: Number
    cp: Number
    gpu: Gpu
    is_whole: bool

    @classmethod
    def aggregated(cls, rows: Rows) -> "PoolRanks":
        """The one pool of an aggregated replica."""
        dp = rows["dp"]
        return cls(dp, rows["tp"], rows["gpus_per_replica"] / dp, dp, rows["cp"], Gpu(rows, "decode"), is_whole=True)

    @classmethod
    def disaggregated(cls, rows: Rows, name: Pool) -> "PoolRanks":
        """The ``prefill`` or ``decode`` pool of a disaggregated replica."""
        workers, tp, pp, dp, cp = (rows[f"{name}_{part}"] for part in ("workers", "tp", "pp", "dp", "cp"))
        return cls(workers * dp, tp, tp * pp * cp, dp, cp, Gpu(rows, name), is_whole=False)


@dataclass(frozen=True)
class SessionBytes:
    """Bytes of one session on a rank, head copies counted, the shared prefix not; ``shared`` is its own."""

    mean: Number
    peak: Number
    slope: Number
    shared: Number


def session_bytes(rows: Rows, agent: Agent, pool: PoolRanks, options: MappingOptions) -> SessionBytes:
    """A session at its mean and peak context, and the slope of its KV at the mean; the shared prefix.

    Of a mix the mean over the sessions that are there, and the prefixes of all its scenarios.
    """
    element, groups, paged = Deployed(rows).kv_element_bytes, agent.spec.attention, options.kv_layout == "paged"
    each = [member.scenario for member in agent.members]

    def bytes_at(context: str) -> Number:
        return mean_over_sessions(
            rows,
            agent.members,
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
        slope=mean_over_sessions(rows, agent.members, slopes),
        shared=sum(shared),
    )


def weights_on_rank(rows: Rows, pool: PoolRanks) -> Number:
    """Bytes of the weights on one rank: the whole non-expert part, its share of the experts.

    Context parallelism splits the tokens of a prompt and their KV, not the weights: each of its GPUs holds
    the non-expert part once more. The experts lie on all GPUs.
    """
    deployed = Deployed(rows)
    on_each = deployed.non_expert_bytes + deployed.vision_bytes
    return kv.weights_bytes_per_rank(on_each * pool.cp, deployed.expert_bytes, pool.dp)


def usable_per_gpu(pool: PoolRanks, options: MappingOptions) -> Number:
    """Bytes of one GPU for weights and KV: after what the engine keeps, or the reserve, and ``--overhead-gb``."""
    if options.reserve_fraction is None:
        return pool.gpu.usable_bytes - options.overhead_bytes_per_gpu
    return pool.gpu.hbm_bytes * (1.0 - options.reserve_fraction) - options.overhead_bytes_per_gpu


def weights_against_usable(rows: Rows, pool: PoolRanks, options: MappingOptions) -> Number:
    """What the weights of one rank take of its usable bytes: all of them, or the share that a rule counts."""
    weights = weights_on_rank(rows, pool)
    return weights * Deployed(rows).usable_by_weights if options.reserve_fraction is None else weights


def reckoned_on_rank(rows: Rows, pool: PoolRanks, options: MappingOptions) -> Number:
    """Bytes of one rank for KV without a server's figure; negative where the weights do not fit."""
    return pool.gpus * usable_per_gpu(pool, options) - weights_against_usable(rows, pool, options)


def replica_kv_bytes(serving: pl.DataFrame, spec: ModelSpec, hardware: HardwareCatalogue) -> float:
    """Bytes for KV of the aggregated replica that one row of ``serving_points`` names, by its engine's defaults."""
    rows = Rows(add_private_columns(serving, spec, hardware))
    pool = PoolRanks.aggregated(rows)
    return float((pool.ranks * reckoned_on_rank(rows, pool, MappingOptions()))[0])


def available_on_rank(rows: Rows, agent: Agent, pool: PoolRanks, options: MappingOptions) -> Number:
    """Bytes of one rank for KV; negative where the weights do not fit.

    The server's own figure rules where a row has it; a disaggregated one does not say of which pool it is.
    """
    reckoned = reckoned_on_rank(rows, pool, options)
    if not pool.is_whole:
        return reckoned
    stated = rows["kv_tokens"]
    is_stated = np.isfinite(stated)
    if not is_stated.any():
        return reckoned
    element, paged = Deployed(rows).kv_element_bytes, options.kv_layout == "paged"
    each = [member.scenario.mean_context_tokens for member in agent.members]
    held = [kv.session_bytes_on_rank(agent.spec.attention, tokens, element, pool.tp, paged=paged) for tokens in each]
    session = mean_over_sessions(rows, agent.members, held), mean_over_sessions(rows, agent.members, each)
    return np.where(is_stated, server_bytes_per_rank(stated, pool.ranks, *session), reckoned)


def room_source(rows: Rows, pool: PoolRanks, options: MappingOptions) -> Number:
    """Whose figure the bytes are, as the codes of ``kv_room_source``."""
    option, engine, assumed, server = (
        np.int8(code("kv_room_source", name)) for name in ("option", "engine", "assumed", "server")
    )
    by_rule = np.where(Deployed(rows).has_room_rule, engine, assumed)
    source = by_rule if options.reserve_fraction is None else np.full(len(rows), option)
    return np.where(np.isfinite(rows["kv_tokens"]), server, source) if pool.is_whole else source


def pool_memory(rows: Rows, agent: Agent, pool: PoolRanks, options: MappingOptions) -> dict[str, Number]:
    """Bytes of a session and bytes for KV, and the sessions that fit (``_fit_mean``, ``_p95``, ``_peak``)."""
    one = session_bytes(rows, agent, pool, options)
    once = options.idle_kv == "dropped" or evicts(agent.scenario, options)
    bytes_ = one if once else with_copies(one, agent.copies)
    # what only is in flight on the GPUs is there once
    fitting = bytes_ if options.idle_kv == "resident" else one
    available = available_on_rank(rows, agent, pool, options)
    left = np.maximum(available - bytes_.shared, 0.0)
    spread = fitting.slope * agent.context_sd_tokens
    fits = available > 0
    least = np.full(len(rows), np.nan)
    if not fits.all():
        least = np.where(fits, np.nan, _least_gpus(rows, pool, options))
    return {
        "kv_bytes_per_session_mean": bytes_.mean,
        "kv_bytes_per_session_peak": bytes_.peak,
        "_shared_bytes": pool.ranks * bytes_.shared,
        "kv_bytes_available": pool.ranks * available,
        "kv_room_source": room_source(rows, pool, options),
        "_weights_fit": fits,
        "least_tp_that_fits": least,
        "_fit_mean": kv.max_sessions(left, fitting.mean, pool.ranks),
        "_fit_p95": pool.ranks * kv.sessions_p95_per_rank(left, fitting.mean, spread),
        "_fit_peak": kv.max_sessions(left, fitting.peak, pool.ranks),
    }


def with_copies(session: SessionBytes, copies: tuple[float, float]) -> SessionBytes:
    """What a session holds on all replicas that its turns were sent to, over how many of them each serves."""
    mean, last = copies
    return SessionBytes(mean * session.mean, last * session.peak, mean * session.slope, session.shared)


def _least_gpus(rows: Rows, pool: PoolRanks, options: MappingOptions) -> Number:
    return kv.least_gpus_that_fit(weights_against_usable(rows, pool, options), usable_per_gpu(pool, options))
