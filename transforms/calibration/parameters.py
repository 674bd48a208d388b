"""The parameters of an engine: what each one means, and how far it may lie from what is expected."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from schemas.arrays import Array


@dataclass(frozen=True)
class Parameter:
    """One parameter: its unit, its value where nothing is known, and how widely engines differ in it.

    ``spread`` is the standard deviation of the logarithm. ``sentence`` takes the value, in ``shown`` units.
    """

    unit: str
    typical: float
    spread: float
    sentence: str
    shown: float = 1.0


#: Typical values and spreads are round figures of what fits of measured deployments give.
PARAMETERS: Final[Mapping[str, Parameter]] = {
    "step_s": Parameter("s", 6e-3, 0.7, "each decode step takes {:.1f} ms beside reading memory", 1e3),
    "weight_read_fraction": Parameter("", 0.65, 0.4, "weights are read at {:.0f} % of peak bandwidth", 100),
    "kv_read_fraction": Parameter("", 0.5, 0.6, "KV is read at {:.0f} % of peak bandwidth", 100),
    "request_s": Parameter("s", 3e-5, 1.0, "each decoding request of a rank adds {:.3f} ms to a step", 1e3),
    "wait_s": Parameter("s", 0.07, 0.8, "{:.0f} ms of TTFT are spent outside the GPUs", 1e3),
    "prefill_fraction": Parameter("", 0.25, 0.6, "prefill runs at {:.0f} % of peak FLOP/s", 100),
    "attention_fraction": Parameter("", 0.2, 0.8, "attention of a prefill runs at {:.0f} % of the 16-bit peak", 100),
    "displaced": Parameter("", 1.0, 0.3, "a prefill keeps decoding from running for {:.2f} times as long as it takes"),
    "queue": Parameter("", 0.5, 1.0, "prompts queue for {:.2f} times half of the root of the others' prefills"),
    "accepted_tokens": Parameter("", 2.2, 0.3, "a step yields {:.2f} tokens of a request"),
}  # fmt: skip
NAMES: Final = tuple(PARAMETERS)
#: A parameter is held within this factor of what is expected, up and down: data of few loads tell some of them hardly.
WIDEST_FACTOR: Final = 12.0

TYPICAL: Final[Array] = np.log([each.typical for each in PARAMETERS.values()])
SPREAD: Final[Array] = np.array([each.spread for each in PARAMETERS.values()])


def place(name: str) -> int:
    """Where the parameter stands in a vector of logarithms."""
    return NAMES.index(name)


def values_of(logs: Array) -> dict[str, Array]:
    """Parameters by name from their logarithms (last axis); each keeps a last axis of one, for the loads."""
    values = np.exp(logs)
    return {name: values[..., at : at + 1] for at, name in enumerate(NAMES)}


def in_words(logs: Array, places: Sequence[int]) -> list[str]:
    """What the parameters at these places mean, one sentence each."""
    return [PARAMETERS[NAMES[at]].sentence.format(np.exp(logs[at]) * PARAMETERS[NAMES[at]].shown) for at in places]


def beyond_peak(parameters: Mapping[str, float]) -> list[str]:
    """Shares of a peak rate above all of it, in sentences: no GPU does that, so the rows are of something else.

    Attention is left out: its share is of the 16-bit peak, which narrower formats may exceed.
    """
    return [
        f"{PARAMETERS[name].sentence.format(parameters[name] * PARAMETERS[name].shown)}: are hardware, precisions, "
        "shape and drafts of these rows what was measured?"
        for name in ("weight_read_fraction", "kv_read_fraction", "prefill_fraction")
        if parameters[name] > 1.0
    ]
