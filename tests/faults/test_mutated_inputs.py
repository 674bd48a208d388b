"""Mutated files of every format: no traceback, every row accounted for, what is accepted conforms and is published."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from pipelines.building import build_inputs, stages
from pipelines.building.builder_lock import hold_lake
from pipelines.building.carrying import compute
from pipelines.lake.query import open_lake
from pipelines.lake.release import begin_release
from pipelines.reading.catalogues import load_hardware, load_models
from pipelines.reading.inputs import find_files
from pipelines.reading.read_inputs import Inputs, read_inputs
from schemas.options import BuildOptions
from tests.faults.tries import TIMES, TRIED, dice
from tests.sources.every_format import EXAMPLES, Example
from tests.sources.mutations import (
    ANY,
    CSV_MUTATIONS,
    JSON_MUTATIONS,
    TEXT_MUTATIONS,
    Mutated,
    Mutation,
    cut,
    leaves,
    parent_of,
)

INPUTS = 10_000 * TIMES


def swap_values(content: bytes, rng: Random) -> Mutated:
    document = json.loads(content)
    one, other = (rng.choice(leaves(document)) for _ in range(2))
    first, second = parent_of(document, one), parent_of(document, other)
    first[one[-1]], second[other[-1]] = second[other[-1]], first[one[-1]]
    return json.dumps(document).encode(), ANY


def nest(content: bytes, rng: Random) -> Mutated:
    document = json.loads(content)
    path, depth = rng.choice(leaves(document)), rng.choice([3, 50, 100, 5000])
    parent_of(document, path)[path[-1]] = "here"
    return json.dumps(document).replace('"here"', "[" * depth + "1" + "]" * depth).encode(), ANY


def repeat_record(content: bytes, rng: Random) -> Mutated:
    return b"\n".join([json.dumps(json.loads(content)).encode()] * rng.randint(2, 5)), ANY


def other_encoding(content: bytes, rng: Random) -> Mutated:
    return content.decode().encode(rng.choice(["utf-16-le", "utf-16-be", "utf-32", "cp500"])), ANY


STRUCTURE: tuple[Mutation, ...] = (*JSON_MUTATIONS, swap_values, nest, repeat_record, other_encoding)


def mutated(example: Example, rng: Random) -> bytes:
    """The file after one to three mutations that suit its kind."""
    first = example.content[:1]
    mutations = STRUCTURE if first in (b"[", b"{") else (*CSV_MUTATIONS, other_encoding)
    if example.content.startswith(b"PAR1"):
        mutations = TEXT_MUTATIONS
    content = example.content
    for _ in range(rng.choice([1, 1, 2, 3])):
        try:
            content, _promise = rng.choice(mutations)(content, rng)
        except (ValueError, LookupError, TypeError, RecursionError, csv.Error):  # nothing left that it can work on
            content = cut(content, rng)[0] if content else example.content
    return content


def publish(inputs: Inputs, options: BuildOptions) -> None:
    """The stages of a build after its inputs are read."""
    with hold_lake(options.out, wait_s=60) as lock:
        prepared = build_inputs.prepare_if_changed(options, None)
        assert prepared is not None
        prepared.inputs = inputs
        with begin_release(options.out, lock) as release:
            partitions = stages.plan_partitions(build_inputs.synthesize(prepared))
            division = stages.divide(prepared, partitions, None, release)
            computed = compute(division.jobs, stages.workplace(prepared, release))
            stages.adopt(computed + division.records, release)
            stages.publish(prepared, release, computed + division.records)


@pytest.mark.slow
def test_mutated_inputs(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    tables, good = tmp_path / "mutated", tmp_path / "good"
    good.mkdir()
    (good / "good.csv").write_bytes(EXAMPLES["aiconfigurator agg"].content)
    tried = dict.fromkeys(EXAMPLES, 0)
    for name, example in EXAMPLES.items():
        folder, rng = tables / name.replace(" ", "-"), dice(f"mutated {name}")
        folder.mkdir(parents=True)
        if example.says:
            (folder / "source.yaml").write_text(example.says)
        for number in range(-(-INPUTS // len(EXAMPLES))):
            (folder / f"{number:05d}.{rng.choice(['csv', 'json', 'jsonl'])}").write_bytes(mutated(example, rng))
            tried[name] += 1
    inputs = read_inputs(find_files([tables]), load_hardware(), load_models())
    assert len(inputs.accounts) == sum(tried.values()) >= INPUTS
    for account in inputs.accounts:
        used = account.rows_accepted + account.rows_duplicate + account.rows_superseded
        assert account.rows_read == used + account.rows_quarantined, account
    assert inputs.quarantine.height == sum(account.rows_quarantined for account in inputs.accounts)
    assert inputs.quarantine.select("reason", "detail", "raw").null_count().sum_horizontal().item() == 0
    options = BuildOptions(tables=(good,), scenarios=("code-agent",), out=tmp_path / "lake")
    publish(inputs, options)
    with open_lake(options.out) as lake:
        counted = "SELECT count(*) FROM serving_points WHERE source <> 'roofline'"
        assert next(lake.query(counted).rows()) == (inputs.serving_points.height,)
    rejected = sum(account.rejected_reason is not None for account in inputs.accounts)
    record_property(
        TRIED,
        f"mutated inputs: {sum(tried.values()):,} files of {len(tried)} formats, {rejected:,} rejected, "
        f"{inputs.quarantine.height:,} rows quarantined, {inputs.serving_points.height:,} published; 0 failed",
    )
