"""`releases verify`: a file that is not what was written is named, whatever has changed in it."""

import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.lake.verify import Verified, verify_release
from schemas.errors import UserError
from schemas.options import BuildOptions
from tests.lake.factory import publish_number
from tests.pipelines.builds import build, write_small_table, write_small_tables

PART = "agent_points/hardware=b200/model=kimi/part-0.parquet"


def test_whole_releases_are_said_to_be(lake: Path) -> None:
    first, second = publish_number(lake, 1), publish_number(lake, 2)
    assert verify_release(lake) == Verified(second.id, 11, ())
    ran = CliRunner().invoke(app, ["releases", "verify", first.id, "--lake", str(lake)])
    assert (ran.exit_code, ran.output) == (0, f"All 11 files of release {first.id} are as they were written.\n")


@pytest.mark.parametrize("path", [PART, "hardware.parquet", "tables.json", "DATA_DICTIONARY.md", "manifest.json"])
def test_every_flipped_bit_and_a_lost_file_are_found(lake: Path, path: str) -> None:
    release = publish_number(lake, 1)
    content = (release.path / path).read_bytes()
    for place in range(0, len(content), 41 if path.endswith(".parquet") else 1 if path == "manifest.json" else 97):
        (release.path / path).write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        assert verify_release(lake).damaged == (path,)
    if path == "manifest.json":  # without it there is no release
        return
    (release.path / path).unlink()
    ran = CliRunner().invoke(app, ["releases", "verify", "--lake", str(lake)])
    assert ran.exit_code == 1
    assert f"damaged {path}\n" in ran.output
    assert (
        f"1 of 11 files of release {release.id} are not what was written: run `agent-pareto build --full`" in ran.output
    )


@pytest.mark.parametrize("text", [None, "", "x", f"{'0' * 64}  /etc/passwd\n", f"{'0' * 64}  a/../../b\n"])
def test_hashes_that_are_gone_or_damaged(lake: Path, text: str | None) -> None:
    release = publish_number(lake, 1)
    if text is None:
        (release.path / "SHA256SUMS").unlink()
    else:
        (release.path / "SHA256SUMS").write_text(text)
    with pytest.raises(UserError, match=r"SHA256SUMS.* cannot be told what was written.*build --full --out"):
        verify_release(lake)


def test_a_real_release_with_partitions_carried_over(tmp_path: Path) -> None:
    tables = write_small_tables(tmp_path / "tables", rows=10)
    options = BuildOptions(tables=(tables,), scenarios=("code-agent",), out=tmp_path / "lake")
    build(options)
    write_small_table(tables, "h100-qwen.csv", 12)
    built = build(options)
    release = options.out / "releases" / str(built.release)
    on_disk = {path.relative_to(release).as_posix() for path in release.rglob("*") if path.is_file()}
    assert verify_release(options.out) == Verified(str(built.release), len(on_disk), ())
    if shutil.which("sha256sum"):
        subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=release, check=True)


def test_a_file_that_was_not_written_with_the_release_is_told(lake: Path) -> None:
    """Readers would take its rows for the release's own."""
    release = publish_number(lake, 1)
    shutil.copy(release.path / PART, (release.path / PART).with_name("part-9.parquet"))
    foreign = PART.replace("part-0", "part-9")
    assert verify_release(lake) == Verified(release.id, 11, (), (foreign,))
    ran = CliRunner().invoke(app, ["releases", "verify", "--lake", str(lake)])
    assert ran.exit_code == 1
    assert f"foreign {foreign}\n" in ran.output


def test_a_changed_line_of_the_hashes_is_told(lake: Path) -> None:
    release = publish_number(lake, 1)
    sums = release.path / "SHA256SUMS"
    sums.write_text(sums.read_text().replace("hardware.parquet", "hardwarf.parquet"))
    verified = verify_release(lake)
    assert set(verified.damaged) == {"SHA256SUMS", "hardwarf.parquet"}
    assert verified.foreign == ("hardware.parquet",)


def test_a_release_of_an_earlier_version_is_told_by_what_it_kept(lake: Path) -> None:
    """Which hashed the Parquet files and nothing else."""
    release = publish_number(lake, 1)
    sums = release.path / "SHA256SUMS"
    lines = [line for line in sums.read_text().splitlines() if line.endswith(".parquet")]
    sums.write_text("".join(f"{line}\n" for line in lines))
    heads = ("DATA_DICTIONARY.md", "SHA256SUMS", "manifest.json", "tables.json")
    assert verify_release(lake) == Verified(release.id, 7, (), (), heads)
