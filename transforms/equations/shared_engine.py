"""GPUs that prefill and decode: what prefills leave of the time to decoding, and how long a prompt waits for others.

Builds, plans, fits and replays of measured runs all serve turns by these two equations (model.md 13). Any unit of time,
the same in all arguments.
"""

from typing import Final

from transforms.numbers import Number, largest, smallest

#: At least so much of the time is left for decoding.
LEAST_DECODING: Final = 5e-4


def output_token_time(step: Number, displaced_fraction: Number) -> Number:
    """Time of an output token: a decode step, stretched by the share of time in which prefills keep it from running."""
    return step / largest(1.0 - displaced_fraction, LEAST_DECODING)


def prefill_wait(busy: Number, prefill: Number, second_moment: Number, others: Number) -> Number:
    """The mean wait for the prefills in front, of prompts that come one by one (Pollaczek and Khinchine).

    ``busy``: share of the time that prefills take; ``second_moment``: the mean square of a prefill's time over the
    square of its mean. A prompt never waits for more than one prefill of each of the ``others``.
    """
    return smallest(busy * prefill * second_moment / (2.0 * (1.0 - busy)), others * prefill)
