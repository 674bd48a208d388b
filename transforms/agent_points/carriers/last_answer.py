"""An answer that is kept until something else is asked."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Asked = TypeVar("Asked", bound=Hashable)
Answer = TypeVar("Answer")


class LastAnswer(Generic[Asked, Answer]):
    """The answer to the last question. Threads may ask side by side: each gets the answer to its own."""

    def __init__(self) -> None:
        self._last: tuple[Asked, Answer] | None = None

    def to(self, question: Asked, find: Callable[[], Answer]) -> Answer:
        """The answer, found where it is not the last one's."""
        last = self._last
        if last is None or last[0] != question:
            self._last = last = question, find()
        return last[1]
