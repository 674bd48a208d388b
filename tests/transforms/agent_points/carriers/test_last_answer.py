"""An answer that is kept until something else is asked."""

from transforms.agent_points.carriers.last_answer import LastAnswer


def test_the_last_answer_is_kept_and_no_other() -> None:
    asked: list[str] = []

    def find(word: str) -> int:
        asked.append(word)
        return len(word)

    last = LastAnswer[str, int]()
    assert [last.to(word, lambda word=word: find(word)) for word in ("a", "a", "bcd", "a")] == [1, 1, 3, 1]  # type: ignore[misc]
    assert asked == ["a", "bcd", "a"]
