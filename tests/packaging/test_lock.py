"""The lock file: exact versions with their hashes, for every Python that is supported, from no index in particular."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LINES = (ROOT / "requirements.lock").read_text().splitlines()
PINS = [Requirement(line.removesuffix(" \\")) for line in LINES if line and not line.startswith((" ", "#"))]
HASHES = [line.strip().removesuffix(" \\") for line in LINES if line.startswith("    --hash=")]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCKED = [*PROJECT["dependencies"], *(PROJECT["optional-dependencies"][extra] for extra in ("dev", "dask", "s3"))]
WANTED = [Requirement(text) for entry in LOCKED for text in ([entry] if isinstance(entry, str) else entry)]


def test_each_line_is_one_exact_version_a_hash_or_a_comment_and_names_no_index() -> None:
    for line in LINES:
        assert re.fullmatch(
            r"( *#.*)|([a-z0-9-]+(\[[a-z,]+\])?==[0-9a-z.]+( ; .*)? \\)|(    --hash=sha256:[0-9a-f]{64}( \\)?)", line
        ), line
    assert "://" not in "\n".join(LINES)


def test_each_version_has_its_hashes() -> None:
    blocks = re.split(r"\n(?=[a-z])", "\n".join(LINES))[1:]
    assert len(blocks) == len(PINS)
    for block in blocks:
        assert "--hash=sha256:" in block, block
    assert len(HASHES) == len(set(HASHES))


def test_make_installs_only_what_has_a_hash() -> None:
    (install,) = (line for line in (ROOT / "Makefile").read_text().splitlines() if "--requirement" in line)
    assert "--require-hashes --requirement requirements.lock" in install


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
@pytest.mark.parametrize(("system", "platform"), [("Linux", "linux"), ("Darwin", "darwin")])
def test_each_python_gets_one_version_that_the_project_allows(python: str, system: str, platform: str) -> None:
    environment = {
        "python_version": python,
        "python_full_version": f"{python}.9",
        "platform_system": system,
        "sys_platform": platform,
        "platform_python_implementation": "CPython",
        "implementation_name": "cpython",
    }
    pins = [pin for pin in PINS if pin.marker is None or pin.marker.evaluate(environment)]
    versions = {canonicalize_name(pin.name): next(iter(pin.specifier)).version for pin in pins}
    assert len(versions) == len(pins)
    for wanted in WANTED:
        assert versions[canonicalize_name(wanted.name)] in wanted.specifier, wanted
