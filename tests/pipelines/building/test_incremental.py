"""A build computes what has changed and carries over the rest; the result is that of a full build."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipelines.building import build_inputs, incremental
from pipelines.building.incremental import Key, PartitionHasher, PartitionRecord, content_sha256, load_previous
from pipelines.lake.query import open_lake
from pipelines.lake.reader import current_release, list_releases
from schemas.catalogue import HardwareCatalogue, ModelCatalogue
from schemas.errors import UserError
from schemas.options import BuildOptions, MappingOptions
from tests.pipelines.builds import Built, build, file_hashes, release_content, write_small_table, write_small_tables

SCENARIOS = ("code-agent", "research-agent", "deep-reasoning")


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    return write_small_tables(tmp_path / "tables")


@pytest.fixture
def options(tmp_path: Path, tables: Path) -> BuildOptions:
    return BuildOptions(tables=(tables,), scenarios=SCENARIOS, out=tmp_path / "lake")


def keys(records: Iterable[PartitionRecord]) -> set[tuple[str, str, str | None]]:
    return {(record.hardware, record.model, record.scenario) for record in records}


def assert_as_full_build(options: BuildOptions, tmp_path: Path) -> None:
    """The current release has, table by table, the content of a build into an empty lake."""
    other = options.model_copy(update={"out": tmp_path / "other"})
    build(other)
    assert release_content(options.out) == release_content(other.out)


def test_a_changed_table_recomputes_its_partitions_and_no_others(
    options: BuildOptions, tables: Path, tmp_path: Path
) -> None:
    first = build(options)
    assert keys(first.computed) == {
        (gpu, model, scenario)
        for gpu, model in (("h200-sxm", "qwen3-32b"), ("h100-sxm", "qwen3-32b"), ("h200-sxm", "llama-3-1-8b"))
        for scenario in SCENARIOS
    }
    before = current_release(options.out)
    write_small_table(tables, "h100-qwen.csv", 40)
    second = build(options)
    # the same model on the other GPU is not computed again: configurations never span hardware
    assert keys(second.computed) == {("h100-sxm", "qwen3-32b", scenario) for scenario in SCENARIOS}
    assert keys(second.carried_over) == keys(first.computed) - keys(second.computed)
    assert_as_full_build(options, tmp_path)
    after = current_release(options.out)
    for record in second.carried_over:
        for part in record.parts:
            assert os.stat(before.path / part.path).st_ino == os.stat(after.path / part.path).st_ino, part.path
    changed = {part.path for record in second.computed for part in record.parts}
    assert changed.isdisjoint(part.path for record in second.carried_over for part in record.parts)
    assert after.manifest["previous"] == before.id


def test_the_manifest_has_the_hashes(options: BuildOptions, tables: Path) -> None:
    first = build(options)
    before = current_release(options.out).manifest
    assert before["partitions"] == {
        str(record.key): record.inputs_sha256 for record in [*first.computed, *_serving(options)]
    }
    write_small_table(tables, "h200-llama.csv", 30)
    build(options)
    after = current_release(options.out).manifest
    assert before["inputs_sha256"] != after["inputs_sha256"]
    changed = {key for key, sha256 in after["partitions"].items() if before["partitions"][key] != sha256}
    assert changed == {f"h200-sxm/llama-3-1-8b{end}" for end in ("", *(f"/{scenario}" for scenario in SCENARIOS))}


def _serving(options: BuildOptions) -> list[PartitionRecord]:
    previous = load_previous(options.out)
    assert previous is not None
    return [record for key, record in previous.records.items() if key.scenario is None]


def test_nothing_changed_publishes_nothing(options: BuildOptions, tables: Path) -> None:
    first = build(options)
    copied = {path.name: path.read_bytes() for path in tables.iterdir()}
    for name, content in copied.items():  # new files, new times, the same content
        (tables / name).unlink()
        (tables / name).write_bytes(content)
    assert build(options) == Built(None, [], [], 0)
    assert [release.id for release in list_releases(options.out)] == [first.release]


def test_full_computes_everything(options: BuildOptions) -> None:
    first = build(options)
    content = release_content(options.out)
    again = build(options, full=True)
    assert keys(again.computed) == keys(first.computed)
    assert again.carried_over == []
    assert release_content(options.out) == content


def test_a_removed_table_takes_its_partitions_along(options: BuildOptions, tables: Path, tmp_path: Path) -> None:
    build(options)
    (tables / "h200-llama.csv").unlink()
    second = build(options)
    assert second.computed == []
    assert {record.model for record in second.carried_over} == {"qwen3-32b"}
    assert_as_full_build(options, tmp_path)


def test_a_new_scenario_is_computed_alone(options: BuildOptions, tmp_path: Path) -> None:
    some = options.model_copy(update={"scenarios": ("code-agent",)})
    build(some)
    both = build(options.model_copy(update={"scenarios": ("code-agent", "research-agent")}))
    assert {record.scenario for record in both.computed} == {"research-agent"}
    assert {record.scenario for record in both.carried_over} == {"code-agent"}
    assert_as_full_build(options.model_copy(update={"scenarios": ("code-agent", "research-agent")}), tmp_path)


@pytest.mark.slow
def test_roofline_points_give_way_to_a_table(tmp_path: Path) -> None:
    tables = write_small_tables(tmp_path / "tables")
    (tables / "h100-qwen.csv").unlink()
    options = BuildOptions(tables=(tables,), synthesize=True, scenarios=("code-agent",), out=tmp_path / "lake")
    first = build(options)
    write_small_table(tables, "h100-qwen.csv", 25)
    second = build(options)
    assert keys(second.computed) == {("h100-sxm", "qwen3-32b", "code-agent")}
    assert len(second.carried_over) == len(first.computed) - 1
    assert_as_full_build(options, tmp_path)


@pytest.mark.parametrize("damage", ["flipped byte", "cut", "gone"])
def test_a_damaged_partition_is_computed_anew(options: BuildOptions, tables: Path, tmp_path: Path, damage: str) -> None:
    first = build(options)
    release = current_release(options.out).path
    victim = next(
        part for record in first.computed if record.hardware == "h200-sxm" for part in record.parts
        if part.table == "agent_points"
    )  # fmt: skip
    path = release / victim.path
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.unlink()
    if damage != "gone":
        path.write_bytes(content if damage == "flipped byte" else content[:-10])
    if damage == "flipped byte":  # its length is right: seen when the file is about to be carried over
        write_small_table(tables, "h100-qwen.csv", 26)
    second = build(options)
    assert second.release is not None
    assert second.damaged == 1
    assert victim.folder in {part.folder for record in second.computed for part in record.parts}
    assert_as_full_build(options, tmp_path)


def test_strict_is_not_satisfied_by_an_earlier_release_with_faults(options: BuildOptions, tables: Path) -> None:
    table = (tables / "h200-llama.csv").read_text().splitlines()
    (tables / "h200-llama.csv").write_text("\n".join([*table, table[-1].replace("1,", "-1,", 1), ""]))
    (tables / "no-table.csv").write_text("a,b\n1,2\n")
    build(options)
    assert build(options).release is None
    with pytest.raises(UserError, match="because of --strict"):
        build(options.model_copy(update={"strict": True}))


def test_a_lake_without_the_record_of_partitions_is_built_in_full(options: BuildOptions) -> None:
    first = build(options)
    (current_release(options.out).path / "partitions.json").write_text("{}")
    assert keys(build(options).computed) == keys(first.computed)


def test_without_hard_links_files_are_copied(
    options: BuildOptions, tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(options)
    before = current_release(options.out).path
    write_small_table(tables, "h100-qwen.csv", 40)

    def refuse(source: Path, target: Path) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    second = build(options)
    after = current_release(options.out).path
    for record in second.carried_over:
        for part in record.parts:
            assert os.stat(after / part.path).st_nlink == 1
            assert file_hashes(before)[part.path] == file_hashes(after)[part.path] == part.sha256
    assert_as_full_build(options, tmp_path)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> build_inputs.Prepared:
    tables = write_small_tables(tmp_path_factory.mktemp("inputs") / "tables")
    return build_inputs.read(build_inputs.find(BuildOptions(tables=(tables,), scenarios=SCENARIOS)))


def hashes(points: Any, hardware: Any, models: Any, scenarios: Any, options: Any) -> dict[Key, str]:
    return PartitionHasher(hardware, models, scenarios, options).hashes(points)


class TestWhatAPartitionDependsOn:
    """Each input alone changes the partitions that it concerns."""

    @staticmethod
    def changed(prepared: build_inputs.Prepared, **other: object) -> set[Key]:
        given: dict[str, object] = {
            "points": prepared.inputs.serving_points,
            "hardware": prepared.hardware,
            "models": prepared.models,
            "scenarios": prepared.scenarios,
            "options": MappingOptions(),
        }
        before = hashes(**given)
        after = hashes(**{**given, **other})
        assert set(before) == set(after)
        return {key for key in before if before[key] != after[key]}

    def test_the_same_changes_nothing(self, prepared: build_inputs.Prepared) -> None:
        shuffled = HardwareCatalogue(tuple(reversed(prepared.hardware.entries)))
        assert self.changed(prepared, hardware=shuffled) == set()

    def test_hardware(self, prepared: build_inputs.Prepared) -> None:
        gpus = [
            gpu.model_copy(update={"hbm_bytes": gpu.hbm_bytes + 1}) if gpu.slug == "h100-sxm" else gpu
            for gpu in prepared.hardware
        ]
        changed = self.changed(prepared, hardware=HardwareCatalogue(tuple(gpus)))
        assert changed == {Key("h100-sxm", "qwen3-32b", scenario) for scenario in SCENARIOS}

    def test_model(self, prepared: build_inputs.Prepared) -> None:
        specs = [
            spec.model_copy(update={"max_context_tokens": 1234}) if spec.slug == "llama-3-1-8b" else spec
            for spec in prepared.models
        ]
        changed = self.changed(prepared, models=ModelCatalogue(tuple(specs)))
        assert changed == {Key("h200-sxm", "llama-3-1-8b", scenario) for scenario in SCENARIOS}

    def test_scenario(self, prepared: build_inputs.Prepared) -> None:
        scenarios = [
            scenario.model_copy(update={"turns": scenario.turns + 1}) if scenario.slug == "code-agent" else scenario
            for scenario in prepared.scenarios
        ]
        changed = self.changed(prepared, scenarios=scenarios)
        assert {key.scenario for key in changed} == {"code-agent"}
        assert len(changed) == 3

    def test_mapping_options(self, prepared: build_inputs.Prepared) -> None:
        changed = self.changed(prepared, options=MappingOptions(reserve_fraction=0.2))
        assert len(changed) == 9
        assert None not in {key.scenario for key in changed}

    def test_serving_points(self, prepared: build_inputs.Prepared) -> None:
        points = prepared.inputs.serving_points
        moved = pl.when((pl.col("hardware") == "h100-sxm") & (pl.int_range(pl.len()) == pl.len() - 1))
        last = points.sort("hardware", descending=True, maintain_order=True)
        later = last.with_columns(ttft_ms=moved.then(pl.col("ttft_ms") * (1 + 1e-15)).otherwise("ttft_ms"))
        assert later["ttft_ms"].to_list() != last["ttft_ms"].to_list()
        changed = self.changed(prepared, points=later)
        assert {(key.hardware, key.model) for key in changed} == {("h100-sxm", "qwen3-32b")}
        assert len(changed) == 4

    @pytest.mark.parametrize("name", ["code_sha256", "SCHEMA_VERSION"])
    def test_code_and_schema(self, prepared: build_inputs.Prepared, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        arguments = (
            prepared.inputs.serving_points, prepared.hardware, prepared.models, prepared.scenarios, MappingOptions()
        )  # fmt: skip
        before = hashes(*arguments)
        monkeypatch.setattr(incremental, name, (lambda: "other code") if name == "code_sha256" else "other schema")
        after = hashes(*arguments)
        assert all(before[key] != after[key] for key in before)


@pytest.mark.parametrize(
    ("what", "changes"),
    [
        ("sidecar", True), ("beside", True), ("name", True), ("mapping", True), ("roofline", True),
        ("runner", False), ("strict", False), ("nothing", False),
    ],
)  # fmt: skip
def test_what_a_release_depends_on(options: BuildOptions, tables: Path, what: str, changes: bool) -> None:
    before = build_inputs.find(options).inputs_sha256
    updates: dict[str, dict[str, object]] = {
        "mapping": {"kv_context": "peak"}, "roofline": {"synthesize": True}, "runner": {"runner": "dask"},
        "strict": {"strict": True},
    }  # fmt: skip
    if what == "sidecar":
        (tables / "source.yaml").write_text("tool_version: '9.9'\n")
    elif what == "beside":
        (tables / "exp_config.yaml").write_text("a: 1\n")
    elif what == "name":
        (tables / "h100-qwen.csv").rename(tables / "other.csv")
    options = options.model_copy(update=updates.get(what, {}))
    assert (build_inputs.find(options).inputs_sha256 != before) == changes


class TestContentHash:
    def test_memory_layout_does_not_matter(self) -> None:
        frame = pl.DataFrame(
            {"n": [1.5, None, 3.0], "s": ["a", None, "more than twelve letters"], "b": [True, None, False]}
        )
        chunked = pl.concat([frame[:1], frame[1:]], rechunk=False)
        sliced = pl.concat([frame, frame])[3:]
        filtered = pl.concat([frame, frame.with_columns(s=pl.lit("x"))]).filter(pl.int_range(pl.len()) < 3)
        from_python = pl.DataFrame(frame.to_dict(as_series=False))
        hashes = {content_sha256(other) for other in (frame, chunked, sliced, filtered, from_python)}
        assert len(hashes) == 1

    @pytest.mark.parametrize(
        "other",
        [
            {"a": [1, 0, 3], "s": ["x", "", "y"]},
            {"a": [1, None, 3], "s": ["x", None, "y"]},
            {"a": [1, None, 3], "s": ["", "x", "y"]},
            {"a": [1, None, 3], "s": ["x", "y", ""]},
            {"a": [None, 1, 3], "s": ["x", "", "y"]},
            {"a": [1.0, None, 3.0], "s": ["x", "", "y"]},
            {"b": [1, None, 3], "s": ["x", "", "y"]},
            {"s": ["x", "", "y"], "a": [1, None, 3]},
            {"a": [3, None, 1], "s": ["x", "", "y"]},
        ],
    )
    def test_every_difference_of_content_is_seen(self, other: dict[str, list[object]]) -> None:
        assert content_sha256(pl.DataFrame({"a": [1, None, 3], "s": ["x", "", "y"]})) != content_sha256(
            pl.DataFrame(other)
        )


def test_records_survive_the_way_through_json(options: BuildOptions) -> None:
    first = build(options)
    previous = load_previous(options.out)
    assert previous is not None
    assert all(previous.records[record.key] == record for record in first.computed)
    assert json.loads((previous.release.path / "partitions.json").read_text())["partitions"]


@pytest.mark.slow
@pytest.mark.prefect
def test_the_command_says_what_it_did(tmp_path: Path) -> None:
    tables = write_small_tables(tmp_path / "tables", rows=12)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    environment |= {"PREFECT_HOME": os.environ["PREFECT_HOME"], "PYTHONPATH": str(Path(__file__).parents[3])}

    def run(*options: str) -> str:
        command = [sys.executable, "-c", "from pipelines.cli import main; main()", "build", "--tables", "tables"]
        done = subprocess.run(
            [*command, *options], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
        return done.stdout

    def rows(hardware: str) -> int:
        with open_lake(tmp_path / "lake") as lake:
            sql = "SELECT count(*) FROM agent_points WHERE hardware = ?"
            return int(next(lake.query(sql, [hardware]).rows())[0])

    said = run()
    every = rows("h100-sxm") + rows("h200-sxm")
    assert re.search(
        rf"Agent points computed {every} in 15 partitions, carried over 0 in 0\. The build took \d+\.\d s\.", said
    )
    first = current_release(tmp_path / "lake").id
    said = run()
    assert f"Nothing has changed since release {first} of {tmp_path}/lake; nothing was published. That took" in said
    write_small_table(tables, "h100-qwen.csv", 14)
    said = run("--keep", "1")
    assert f"computed {rows('h100-sxm')} in 5 partitions, carried over {rows('h200-sxm')} in 10." in said
    assert "carried over 0 in 0." in run("--full")
    assert len(list_releases(tmp_path / "lake")) == 3  # the first was current less than an hour ago
