"""Every column of every format is given bad values: nothing ends in a traceback, and `check` and `build` agree."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipelines.reading.catalogues import load_hardware, load_models
from pipelines.reading.inputs import find_files
from pipelines.reading.read_inputs import read_inputs
from tests.sources.mutations import _leaves, _parent, _table, _text
from tests.sources.test_fuzz import FILES, check_tables, outcome

VALUES: tuple[Any, ...] = (0, -1, 1e-300, 1e300, "", "text")


def spoiled(content: bytes) -> Iterator[tuple[str, bytes]]:
    """The file with one cell of its first row, or one value of its JSON, replaced by each bad value."""
    if content.lstrip()[:1] in (b"[", b"{"):
        for path in _leaves(json.loads(content)):
            for value in VALUES:
                document = json.loads(content)
                _parent(document, path)[path[-1]] = value
                yield f"{path} {value!r}", json.dumps(document).encode()
        return
    table = _table(content)
    for column in range(len(table[1])):
        for value in VALUES:
            changed = [list(line) for line in table]
            changed[1][column] = str(value)
            yield f"column {column + 1} {value!r}", _text(changed)


@pytest.mark.parametrize("name", list(FILES))
@pytest.mark.slow
def test_no_table_refuses_what_was_judged_good(name: str) -> None:
    content, says, _ = FILES[name]
    found = []
    tried = 0
    for where, bad in spoiled(content):
        try:
            said = outcome(bad, says)
            if said is not None:
                found.append(said)
        except Exception as error:
            raise AssertionError(f"{name}: {where}") from error
        tried += 1
    check_tables(found)
    print(f"{name}: {tried} files tried, {len(found)} read, 0 failed")
    assert tried > 50


def test_check_and_build_agree_on_a_throughput_of_zero(tmp_path: Path) -> None:
    content = FILES["agg"][0]
    table = _table(content)
    for column in ("tokens/s/gpu", "ttft", "tokens/s/user"):
        changed = [list(line) for line in table]
        changed[1][table[0].index(column)] = "0"
        (tmp_path / f"{column.replace('/', '-')}.csv").write_bytes(_text(changed))
    files = find_files([tmp_path])
    checked, built = (
        read_inputs(files, load_hardware(), load_models(), keep_points=keep_points) for keep_points in (False, True)
    )
    assert checked.accounts == built.accounts
    assert [account.rows_quarantined for account in built.accounts] == [1] * 3
    zero = built.quarantine.filter(pl.col("source_file") == "tokens-s-gpu.csv")
    assert zero.select("reason", "detail").rows() == [
        ("out_of_range", "output_tokens_per_s_per_gpu is 0.0, not above 0")
    ]
