"""Number formats of stored weights: bytes of one matrix, block scales included."""

from collections.abc import Callable
from dataclasses import dataclass

from schemas.dtypes import WeightDtype


@dataclass(frozen=True)
class Format:
    """A format and the bytes that a matrix of ``rows`` outputs and ``columns`` inputs takes in it."""

    dtype: WeightDtype
    matrix_bytes: Callable[[int, int], int]


def sixteen_bits(dtype: WeightDtype) -> Format:
    """BF16 or FP16."""
    return Format(dtype, lambda rows, columns: 2 * rows * columns)


def fp8_tensor(*, static_inputs: bool) -> Format:
    """FP8 with one 4-byte scale a matrix, and one for its inputs where they are calibrated."""
    scales = 8 if static_inputs else 4
    return Format("fp8", lambda rows, columns: rows * columns + scales)


def fp8_channel(scale_bytes: int) -> Format:
    """FP8 with one scale an output."""
    return Format("fp8", lambda rows, columns: rows * columns + rows * scale_bytes)


def fp8_block(block_rows: int, block_columns: int, scale_bytes: int) -> Format:
    """FP8 with one scale a block (DeepSeek-V3: 128 x 128, 4 bytes)."""

    def matrix_bytes(rows: int, columns: int) -> int:
        return rows * columns + _ceil(rows, block_rows) * _ceil(columns, block_columns) * scale_bytes

    return Format("fp8-block", matrix_bytes)


def nvfp4(group: int = 16, *, tensor_scales: int = 8) -> Format:
    """Two weights a byte, one FP8 scale for 16 of them, 4-byte scales of the matrix and of its inputs."""
    return Format("nvfp4", lambda rows, columns: rows * columns // 2 + rows * _ceil(columns, group) + tensor_scales)


def mxfp4(group: int = 32) -> Format:
    """Two weights a byte, one 8-bit exponent for 32 of them."""
    return Format("mxfp4", lambda rows, columns: rows * columns // 2 + rows * _ceil(columns, group))


def int4(group: int, *, zero_points: bool = False, shape_bytes: int = 0) -> Format:
    """Two weights a byte, one 2-byte scale a group; zero points and a stored shape where there are any."""

    def matrix_bytes(rows: int, columns: int) -> int:
        groups = rows * _ceil(columns, group)
        return rows * columns // 2 + 2 * groups + (groups // 2 if zero_points else 0) + shape_bytes

    return Format("int4", matrix_bytes)


def int8_channel() -> Format:
    """INT8 with one 4-byte scale an output."""
    return Format("int8", lambda rows, columns: rows * columns + 4 * rows)


#: What a deployment's format name stands for where the checkpoint does not say more.
BY_NAME: dict[str, Format] = {
    "bf16": sixteen_bits("bf16"),
    "fp16": sixteen_bits("fp16"),
    "fp8": fp8_tensor(static_inputs=False),
    "fp8-block": fp8_block(128, 128, 4),
    "int8": int8_channel(),
    "int4": int4(32),
    "nvfp4": nvfp4(),
    "mxfp4": mxfp4(),
}


def _ceil(value: int, step: int) -> int:
    return -(-value // step)
