"""Number formats of weights, KV cache and arithmetic, with their bytes and the rate they compute at.

One vocabulary for the whole program; what each table calls them is translated in the module of its
format. A name outside the vocabulary is an error, never a guess.
"""

from typing import Final, Literal, get_args

WeightDtype = Literal["bf16", "fp16", "fp8", "fp8-block", "int8", "int4", "nvfp4", "mxfp4"]
KvDtype = Literal["bf16", "fp16", "fp8", "int8", "nvfp4"]
ComputeDtype = Literal["bf16", "fp8", "fp4"]

WEIGHT_DTYPES: Final[tuple[str, ...]] = get_args(WeightDtype)
KV_DTYPES: Final[tuple[str, ...]] = get_args(KvDtype)

#: Stored bytes of one weight, its share of the block scales included.
BYTES_PER_WEIGHT: Final[dict[str, float]] = {
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "fp8-block": 1.0 + 4 / (128 * 128),  # one 4-byte scale for each 128 x 128 block (DeepSeek-V3)
    "int8": 1.0,  # one scale a channel: below 0.1 %
    "int4": 0.5 + 2 / 32,  # one 2-byte scale for 32 weights (Kimi-K2.5, compressed-tensors)
    "nvfp4": 0.5 + 1 / 16,  # one FP8 scale for 16 weights
    "mxfp4": 0.5 + 1 / 32,  # one 8-bit exponent for 32 weights (OCP microscaling formats 1.0)
}

#: Bytes of one element of the KV cache; scales are not counted.
BYTES_PER_KV_ELEMENT: Final[dict[str, float]] = {
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "nvfp4": 0.5 + 1 / 16,
}

#: Arithmetic that a weight format asks for, best first; the first that the GPU has is used
#: (model.md 3: FP4 weights on a GPU without FP4 compute at FP8). Integer weights are
#: weight-only formats: they are unpacked and multiplied in 16 bits.
COMPUTE_PREFERENCE: Final[dict[str, tuple[ComputeDtype, ...]]] = {
    "bf16": ("bf16",),
    "fp16": ("bf16",),
    "fp8": ("fp8", "bf16"),
    "fp8-block": ("fp8", "bf16"),
    "int8": ("bf16",),
    "int4": ("bf16",),
    "nvfp4": ("fp4", "fp8", "bf16"),
    "mxfp4": ("fp4", "fp8", "bf16"),
}

#: Arithmetic that engines run for a weight format, best first, on a GPU with and without FP4. Unlike the
#: article's rule, 4-bit formats are unpacked to 16 bits where FP4 is missing, and MXFP4 multiplies with FP8
#: activations where it is native (AIConfigurator 0.12.0: modes w4a16_mxfp4, w4a8_mxfp4_mxfp8, nvfp4_wo).
SERVED_WITH_FP4: Final[dict[str, tuple[ComputeDtype, ...]]] = {**COMPUTE_PREFERENCE, "mxfp4": ("fp8", "bf16")}
SERVED_WITHOUT_FP4: Final[dict[str, tuple[ComputeDtype, ...]]] = {
    **COMPUTE_PREFERENCE,
    "nvfp4": ("bf16",),
    "mxfp4": ("bf16",),
}
