"""Every file of a lake, damaged in every way: never a wrong number, a sentence everywhere, and one command heals."""

import json
import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import typer.testing

from pipelines.cli import app
from pipelines.lake.reader import current_release
from pipelines.lake.verify import verify_release
from schemas.errors import UserError
from tests.faults import builders, tries
from tests.pipelines.builds import build

pytestmark = pytest.mark.slow

DAMAGES_OF_A_FILE = 2 * tries.TIMES
#: What a JSON file may hold instead; the first ones are no JSON.
ODD_JSON = (
    "",
    "{",
    "[]",
    "3",
    "null",
    '"x"',
    "{}",
    "[" * 5000,
    '{"a": 1e999}',
    '{"release": 3, "tables": 7}',
    "\udcff",
)
READERS = (
    ("query", builders.FIGURES, "--format", "json", "--lake"),
    ("frontier", "--hardware", "h200-sxm", "--model", "qwen3-32b", "--scenario", "code-agent", "--lake"),
    ("releases", "list", "--lake"),
    ("releases", "verify", "--lake"),
    ("releases", "relink", "--lake"),
    ("releases", "prune", "--keep", "5", "--lake"),
)


def flip(path: Path, dice: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    path.write_bytes(content)


def cut(path: Path, dice: random.Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: dice.randrange(len(content))])


def lengthen(path: Path, dice: random.Random) -> None:
    path.write_bytes(path.read_bytes() + dice.randbytes(100))


def replace_by_noise(path: Path, dice: random.Random) -> None:
    path.write_bytes(dice.randbytes(path.stat().st_size))


def replace_by_odd_json(path: Path, dice: random.Random) -> None:
    path.write_bytes(dice.choice(ODD_JSON).encode("utf-8", "surrogateescape"))


def replace_a_value(path: Path, dice: random.Random) -> None:
    """A JSON file that is whole, but for one value of another type."""
    content = json.loads(path.read_text())
    inner, outer = content, content
    key: Any = None
    while isinstance(inner, dict | list) and inner:
        outer, key = inner, dice.choice(list(inner) if isinstance(inner, dict) else range(len(inner)))
        inner = outer[key]
        if dice.random() < 0.3:
            break
    outer[key] = dice.choice([None, 7, -1, "x", [], {}, ["y"], {"z": 1}, "../../x", True])
    path.write_text(json.dumps(content))


def delete(path: Path, dice: random.Random) -> None:
    path.unlink()


def replace_by_folder(path: Path, dice: random.Random) -> None:
    path.unlink()
    path.mkdir()


Damage = Callable[[Path, random.Random], None]
ANY_FILE: tuple[Damage, ...] = (flip, cut, lengthen, replace_by_noise, delete, replace_by_folder)
JSON_FILE: tuple[Damage, ...] = (*ANY_FILE, replace_by_odd_json, replace_a_value, replace_a_value)


def read_in_every_way(lake: Path, right: tuple[object, ...], numbers_may_be_wrong: bool) -> None:
    """Every reader answers rightly or with a sentence."""
    for arguments in READERS:
        ran = typer.testing.CliRunner().invoke(app, [*arguments, str(lake)])
        error = ran.exception
        if error is not None and not isinstance(error, UserError | SystemExit):
            raise AssertionError(f"`{' '.join(arguments[:2])}` ends in {error!r}") from error
        if isinstance(error, UserError):
            assert len(str(error)) > 20, error
        elif arguments[0] == "query" and not numbers_may_be_wrong:
            assert tuple(json.loads(ran.stdout)[0].values()) == right


@pytest.mark.parametrize("releases", [1, 2])
def test_every_kind_of_file_damaged(
    tmp_path: Path, record_property: Callable[[str, object], None], releases: int
) -> None:
    """In a lake of one release and in one of two; it is moved before, so the DuckDB file shows another place."""
    tally = tries.Tally(record_property, f"damaged files in a lake of {releases}")
    dice = tries.dice(f"damages {releases}")
    options = builders.small_options(tmp_path, 0)
    if releases == 2:
        build(builders.small_options(tmp_path, 1))
    build(options)
    pristine = tmp_path / "lake"
    right = builders.figures(pristine)
    release = current_release(pristine).path
    names = [path.relative_to(pristine) for path in sorted(release.rglob("*")) if path.is_file()]
    names += [Path("current.json"), Path("agent_pareto.duckdb")]

    def damage_and_heal(name: Path, damage: Damage, full: bool) -> None:
        lake = tmp_path / "moved" / "lake"
        shutil.rmtree(lake, ignore_errors=True)
        shutil.copytree(pristine, lake)
        before = (lake / name).read_bytes()
        damage(lake / name, dice)
        unchanged = (lake / name).is_file() and (lake / name).read_bytes() == before
        in_release = name.parts[0] == "releases"
        if in_release and not unchanged and name.name != "manifest.json":
            try:
                assert not verify_release(lake).whole, "verify calls it whole"
            except UserError as error:
                if "build --full" not in str(error):
                    raise
        # a flipped bit of a table may read as another number: only `verify` can tell
        read_in_every_way(lake, right, numbers_may_be_wrong=name.suffix == ".parquet")
        built = build(options.model_copy(update={"out": lake}), full=full)
        if in_release and not full and not unchanged and (name.suffix != ".parquet" or not (lake / name).is_file()):
            assert built.release is not None, "an unchanged build does not notice"
        if built.release is None and in_release and not unchanged:  # of a table, and of the same size
            build(options.model_copy(update={"out": lake}), full=True)
        assert verify_release(lake).whole
        assert builders.figures(lake) == right
        assert builders.figures_of_database(lake) == right

    for name in names:
        kinds = JSON_FILE if name.suffix == ".json" else ANY_FILE
        if name.parts[0] != "releases":  # a folder in the place of these is not for a build to delete
            kinds = tuple(kind for kind in kinds if kind is not replace_by_folder)
        for number in range(DAMAGES_OF_A_FILE * (3 if name.suffix == ".json" else 1)):
            damage, full = dice.choice(kinds), number % 2 == 0
            shown = Path(*name.parts[2:]) if len(name.parts) > 2 else name
            tally.trial(
                "damages, each healed by one command",
                partial(damage_and_heal, name, damage, full),
                f"{damage.__name__} {shown}{' full' if full else ''}",
            )
    tally.finish()
