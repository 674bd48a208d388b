"""Hashes of KV blocks: a prefix-hashed id stands for the block and for all that is before it."""

from collections.abc import Sequence
from typing import Final

#: Ids below this are kept as bits (64 MB at most); others one by one.
_AS_BITS: Final = 2**29


class SeenBlocks:
    """The blocks that have been in any input so far."""

    def __init__(self) -> None:
        self._bits = bytearray()
        self._others: set[object] = set()

    def leading(self, ids: Sequence[object]) -> int:
        """How many blocks at the beginning of the input have been seen before; then all of them have been."""
        seen = 0
        while seen < len(ids) and self._has(ids[seen]):
            seen += 1
        for block in ids[seen:]:
            self._add(block)
        return seen

    def _has(self, block: object) -> bool:
        if isinstance(block, int) and 0 <= block < _AS_BITS:
            return block >> 3 < len(self._bits) and bool(self._bits[block >> 3] & 1 << (block & 7))
        return block in self._others

    def _add(self, block: object) -> None:
        if isinstance(block, int) and 0 <= block < _AS_BITS:
            if block >> 3 >= len(self._bits):
                self._bits.extend(bytes(max((block >> 3) + 1 - len(self._bits), len(self._bits))))
            self._bits[block >> 3] |= 1 << (block & 7)
        else:
            self._others.add(block)


def block_ids(value: object) -> list[int | str] | None:
    """The ids of a row; None where there is no list of them."""
    if not isinstance(value, list) or not all(type(item) in (int, str) for item in value):
        return None
    return value


def tokens_of(blocks: int, ids: int, input_tokens: float, block_tokens: float) -> float:
    """Tokens of the first blocks of an input of so many ids.

    Blocks of ``block_tokens``, the last one perhaps not full; where the number of ids does not fit the input,
    the same share of the input as of the ids.
    """
    if not ids or not input_tokens > 0:
        return 0.0
    fits = (ids - 1) * block_tokens < input_tokens <= (ids + 1) * block_tokens
    return min(blocks * block_tokens, input_tokens) if fits else input_tokens * blocks / ids
