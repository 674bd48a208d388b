"""Turns that are sent to any replica: what the replica that a turn comes to still has of its session (model.md 7).

A router that knows no sessions sends each turn to one of ``n`` replicas by chance. The session's last turn there was
``k`` turns ago with chance ``p * q^(k-1)``, ``p = 1/n`` and ``q = 1 - p``, and what is cached there is the context of
that turn: the tokens that came since, ``(k-1) * g`` more than on the session's own replica, are computed again. Where
none of its turns was, all of its context is. Each replica that it was on holds a copy.
"""

import numpy as np

from schemas.arrays import Array
from transforms.numbers import Number


def share_last_there(turns_ago: Number, replicas: float) -> Number:
    """The chance that a session's last turn on a replica was so many turns ago: ``p * q^(k-1)``."""
    return (1.0 - 1.0 / replicas) ** (turns_ago - 1.0) / replicas


def share_never_there(turns_before: Number, replicas: float) -> Number:
    """The chance that none of so many turns was on a replica: ``q^(j-1)``."""
    return (1.0 - 1.0 / replicas) ** turns_before


def mean_turns_missed(turns_before: Number, replicas: float) -> Number:
    """``sum_{k<=m} (k-1) * p * q^(k-1)``: the turns since the last one there, over those that were there; ``m`` before.

    Without end it is ``q/p = n - 1``.
    """
    p, q = 1.0 / replicas, 1.0 - 1.0 / replicas
    m = turns_before
    return (q - m * q**m + (m - 1.0) * q ** (m + 1.0)) / p


def copies_held(kept_tokens: Array, replicas: float) -> Array:
    """Tokens that all replicas together hold of a session after each turn: ``H(j) = L(j) + q * H(j-1)``.

    ``kept_tokens``: its context at each turn. The replica of turn ``j - i`` still has that turn's context unless one of
    the ``i`` turns since came to it, with chance ``q^i``. Two replicas, contexts of 100, 200 and 300: 100, 250 and 425.
    """
    q = 1.0 - 1.0 / replicas
    held = np.empty(len(kept_tokens))
    total = 0.0
    for turn, tokens in enumerate(kept_tokens.tolist()):
        total = tokens + q * total
        held[turn] = total
    return held


def new_tokens_in_slices(
    new_on_hit: Array, all_new: Array, turns_before: Array, growth_tokens: float, replicas: float, slices: int
) -> Array:
    """New tokens of each turn, in equally likely slices from the turns that find most to those that find nothing.

    ``new_on_hit``: on the replica of the turn before; ``all_new``: where the session never was; ``turns_before``: of
    its task. Result ``(turns, slices)``; the mean of a turn's slices is its mean exactly.
    """
    q = 1.0 - 1.0 / replicas
    edges = np.linspace(0.0, 1.0, slices + 1)
    before = turns_before[:, None]
    seen = 1.0 - share_never_there(before, replicas)
    # whole numbers of turns ago within a share of the chances, and the part of the next
    with np.errstate(divide="ignore"):
        whole = np.floor(np.log1p(-edges) / np.log(q) + 1e-9)
    whole = np.minimum(whole, before)
    part = np.minimum(edges, seen) - (1.0 - share_never_there(whole, replicas))
    missed = mean_turns_missed(whole, replicas) + whole * np.maximum(part, 0.0)
    nothing = np.maximum(edges - seen, 0.0)
    upto = new_on_hit[:, None] * np.minimum(edges, seen) + growth_tokens * missed + all_new[:, None] * nothing
    return np.asarray(np.diff(upto, axis=1) * slices)
