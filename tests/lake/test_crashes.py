"""A crash at any moment leaves a whole release for every reader, and the next build puts everything right."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.lake import publish
from pipelines.lake.publish import STEPS
from pipelines.lake.reader import list_releases
from pipelines.lake.release import begin_release
from schemas.errors import UserError
from tests.lake.factory import (
    FIELDS,
    points,
    publish_and_die,
    publish_and_die_at_call,
    publish_number,
    seen_by_database,
    seen_by_polars,
    seen_by_query,
    whole_number,
    write_release,
)

RunChild = Callable[..., int | None]
MOMENTS = ("written", *STEPS)
AFTER_PUBLICATION = ("replace_database", "done")


def assert_next_publish_puts_right(lake: Path, number: int) -> None:
    with begin_release(lake) as writer:
        if (lake / "current.json").exists():
            assert seen_by_database(lake) == seen_by_query(lake)  # before anything else is done
        write_release(writer, number)
        writer.publish(**FIELDS)
    assert seen_by_query(lake) == seen_by_database(lake) == seen_by_polars(lake) == number
    assert_no_leftovers(lake)


def assert_no_leftovers(lake: Path) -> None:
    names = {path.name for path in lake.iterdir()}
    assert names == {"releases", "agent_pareto.duckdb", "current.json", ".publish.lock"}
    assert [path.name for path in (lake / "releases").iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("moment", MOMENTS)
def test_first_publish_killed(lake: Path, run_child: RunChild, moment: str) -> None:
    assert run_child(publish_and_die, lake, 1, moment) == -signal.SIGKILL
    if moment in AFTER_PUBLICATION:
        assert seen_by_query(lake) == seen_by_polars(lake) == 1
    else:
        with pytest.raises(UserError, match=r"agent-pareto build|choose one"):
            seen_by_query(lake)
        assert not (lake / "agent_pareto.duckdb").exists()
    assert_next_publish_puts_right(lake, 2)


@pytest.mark.parametrize("moment", MOMENTS)
def test_second_publish_killed(lake: Path, run_child: RunChild, moment: str) -> None:
    publish_number(lake, 1)
    assert run_child(publish_and_die, lake, 2, moment) == -signal.SIGKILL
    published = moment in AFTER_PUBLICATION
    assert seen_by_query(lake) == seen_by_polars(lake) == (2 if published else 1)
    assert seen_by_database(lake) == (2 if moment == "done" else 1)
    for release in list_releases(lake):
        assert whole_number(release.path) in (1, 2)
    assert_next_publish_puts_right(lake, 3)


@pytest.mark.slow
def test_killed_before_each_call_that_touches_the_disk(lake: Path, run_child: RunChild) -> None:
    publish_number(lake, 1)
    faults = 0
    while run_child(publish_and_die_at_call, lake, 0, faults) == -signal.SIGKILL:
        by_query, by_database = seen_by_query(lake), seen_by_database(lake)
        assert by_query in (0, 1)
        assert by_database in (1, by_query)
        assert seen_by_polars(lake) == by_query
        faults += 1
    print(f"{faults} injected faults")
    assert faults >= 20  # 16 files and folders flushed, 2 files replaced, one folder renamed, …
    assert_next_publish_puts_right(lake, 3)


@pytest.mark.parametrize("step", STEPS[: STEPS.index("replace_database")])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device", "x"), KeyboardInterrupt()])
def test_an_error_takes_the_new_release_away(
    lake: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException
) -> None:
    first = publish_number(lake, 1)

    def fail(now: str) -> None:
        if now == step:
            raise error

    expected = UserError if isinstance(error, OSError) else KeyboardInterrupt
    message = "cannot be written: No space left on device" if isinstance(error, OSError) else "^$"
    monkeypatch.setattr(publish, "reached", fail)
    with pytest.raises(expected, match=message):
        publish_number(lake, 2)
    monkeypatch.undo()
    assert [release.id for release in list_releases(lake)] == [first.id]
    assert seen_by_query(lake) == seen_by_database(lake) == 1
    assert [path.name for path in (lake / "releases").iterdir()] == [first.id]
    assert_next_publish_puts_right(lake, 3)


def test_an_error_after_publication_says_so(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_number(lake, 1)

    def fail(now: str) -> None:
        if now == "replace_database":
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(publish, "reached", fail)
    with pytest.raises(UserError, match=r"is published, but .*duckdb"):
        publish_number(lake, 2)
    monkeypatch.undo()
    assert seen_by_query(lake) == 2
    assert seen_by_database(lake) == 1
    assert_next_publish_puts_right(lake, 3)


def test_leaving_without_publish_leaves_nothing(lake: Path) -> None:
    first = publish_number(lake, 1)
    with begin_release(lake) as writer:
        write_release(writer, 2)
    with pytest.raises(ValueError, match="cannot name a table"), begin_release(lake) as writer:
        writer.write_table("../x", points(2))
    assert [path.name for path in (lake / "releases").iterdir()] == [first.id]
    assert_no_leftovers(lake)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"release": 3}', '{"release": "../../etc"}'])
def test_a_damaged_pointer_is_replaced_by_the_next_build(lake: Path, content: str) -> None:
    publish_number(lake, 1)
    (lake / "current.json").write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=r"current\.json"):
        seen_by_query(lake)
    publish_number(lake, 2)
    assert seen_by_query(lake) == seen_by_database(lake) == 2
