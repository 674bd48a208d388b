"""The user's own catalogue files: what they add, and sentences about what is wrong with them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.reading.catalogues import load_hardware, load_scenarios
from schemas.errors import UserError

SCENARIO = """\
scenarios:
  - slug: mine
    turns: 4
    think_time_s: 2.5
    initial_prompt_tokens: 8e3
    new_tokens_per_turn: 400
    output_tokens_per_turn: 200
    cache_hit_rate: 0.9
"""

GPU = """\
hardware:
  - slug: my-gpu
    vendor: Mine
    aliases: [lab-gpu]
    hbm_bytes: 96e9
    hbm_printed_gb: 96
    hbm_bandwidth_bytes_per_s: 4.0e12
    flops_per_s: {bf16: 1.0e15, fp8: 2.0e15}
    gpus_per_node: 4
    scale_up_bytes_per_s: 2.0e11
    scale_out_bytes_per_s: 5.0e10
    host_link_bytes_per_s: 6.4e10
"""


Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str, name: str = "f.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def hardware_refusal(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        load_hardware(path)
    return str(caught.value)


def scenario_refusal(*specs: Path | str) -> str:
    with pytest.raises(UserError) as caught:
        load_scenarios([str(spec) for spec in specs])
    return str(caught.value)


def test_a_gpu_of_ones_own_joins_the_shipped_ones(write: Write) -> None:
    catalogue = load_hardware(write(GPU))
    assert len(catalogue) == len(load_hardware()) + 1
    gpu = catalogue.find("Lab-GPU")
    assert (gpu.slug, gpu.name, gpu.hbm_bytes) == ("my-gpu", "my-gpu", 96_000_000_000)
    assert gpu.scale_up_gpus == 4
    assert load_hardware().lookup("my-gpu") is None


def test_a_scenario_file_is_used_alone_and_in_the_order_of_the_specs(write: Write) -> None:
    path = write(SCENARIO)
    assert [s.slug for s in load_scenarios([str(path)])] == ["mine"]
    chosen = load_scenarios(["deep-reasoning", str(path), "code-agent", "deep-reasoning"])
    assert [s.slug for s in chosen] == ["deep-reasoning", "mine", "code-agent"]
    assert chosen[1].initial_prompt_tokens == 8_000
    assert chosen[1].cache_hit_rate == 0.9


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ("slug: my-gpu", None),
        ("slug: b200", "hardware 'b200' is defined twice, with different figures."),
        ("slug: h200-nv", "hardware 'h200-nv' and hardware 'h200-sxm' both claim the name 'h200-nv'."),
        ("slug: other\n    name: NVIDIA H200", "both claim the name 'NVIDIA H200'."),
    ],
)
def test_a_name_belongs_to_one_gpu(write: Write, claim: str, said: str | None) -> None:
    path = write(GPU.replace("slug: my-gpu", claim))
    if said is None:
        load_hardware(path)
    else:
        message = hardware_refusal(path)
        assert message.startswith(f"{path}: ")
        assert said in message
        assert "Give your own entry another slug, name or alias." in message


def test_an_alias_of_a_shipped_gpu_is_taken(write: Write) -> None:
    assert "both claim the name 'H100'" in hardware_refusal(write(GPU.replace("lab-gpu", "H100")))


def test_an_entry_equal_to_a_shipped_one_is_no_collision(write: Write) -> None:
    shipped = (Path(__file__).parents[2] / "data" / "hardware.yaml").read_text()
    assert load_hardware(write(shipped)) == load_hardware()


def test_two_different_scenarios_of_one_slug(write: Write) -> None:
    one, same, other = (
        write(SCENARIO, "1.yaml"),
        write(SCENARIO, "2.yaml"),
        write(SCENARIO.replace("2.5", "3"), "3.yaml"),
    )
    assert len(load_scenarios([str(one), str(same)])) == 1
    message = scenario_refusal(one, other)
    assert message == (
        f"{other}: scenario 'mine' differs from the one of the same slug in {one}; give one of them another slug."
    )


@pytest.mark.parametrize(
    ("written", "instead", "line", "said"),
    [
        ("think_time_s: 2.5", "think_time_s: -1", 4, "think_time_s is -1, must be 0 or more."),
        ("think_time_s: 2.5", "think_time_s: .nan", 4, "think_time_s is .nan, must be a finite number."),
        ("think_time_s: 2.5", "think_time_s: .inf", 4, "think_time_s is .inf, must be a finite number."),
        ("think_time_s: 2.5", "think_time_s: 1e999", 4, "think_time_s is .inf, must be a finite number."),
        ("think_time_s: 2.5", "think_time_s: true", 4, "think_time_s is true, must be a number"),
        ("think_time_s: 2.5", "think_time_s:", 4, "think_time_s is empty, must be a number"),
        ("think_time_s: 2.5", "think_time_s: [1]", 4, "think_time_s is a list, must be a number"),
        ("think_time_s: 2.5", "think_time_s: '2.5'", 4, "think_time_s is '2.5', must be a number (no quotes"),
        ("think_time_s: 2.5", "think_time_s: 2,5", 4, "think_time_s is '2,5', must be a number"),
        ("think_time_s: 2.5", "think_tme_s: 2.5", 2, "think_time_s is missing."),
        (
            "think_time_s: 2.5",
            "think_time_s: 2.5\n    think_tme_s: 2.5",
            5,
            "think_tme_s is not a field. Did you mean 'think_time_s'? The fields are cache, distributions, first_turn",
        ),
        ("turns: 4", "turns: 0", 3, "turns is 0, must be 1 or more."),
        ("turns: 4", "turns: 4000000", 3, "turns is 4000000, must be 1000000 or less."),
        ("8e3", "1,000", 5, "initial_prompt_tokens is '1,000', must be a number (no quotes, no thousands"),
        ("8e3", "1_000", 5, "initial_prompt_tokens is '1_000', must be a number"),
        ("8e3", "0", 5, "initial_prompt_tokens is 0, must be more than 0."),
        ("cache_hit_rate: 0.9", "cache_hit_rate: 90", 8, "cache_hit_rate is 90, must be 1 or less."),
        ("cache_hit_rate: 0.9", "cache_hit_rte: 0.9", 8, "Did you mean 'cache_hit_rate'?"),
        ("cache_hit_rate: 0.9", "cache: {model: fixed}", 8, "cache.hit_rate is missing."),
        (
            "cache_hit_rate: 0.9",
            "cache: {hitrate: 1}",
            8,
            "cache.hitrate is not a field. Did you mean 'hit_rate'?",
        ),
        (
            "cache_hit_rate: 0.9",
            "cache: {model: magic, hit_rate: 1}",
            8,
            "cache.model is 'magic', must be one of 'fixed', 'ttl', 'lru'.",
        ),
        ("cache_hit_rate: 0.9", "cache: {model: [lru]}", 8, "cache.model is a list, must be one of"),
        ("cache_hit_rate: 0.9", "cache: {model: ttl}", 8, "cache.kept_s is missing."),
        ("cache_hit_rate: 0.9", "cache: {model: ttl, kept_s: 5 min}", 8, "cache.kept_s is '5 min', must be a number"),
        ("cache_hit_rate: 0.9", "cache: {model: ttl, kept_s: .inf}", 8, "cache.kept_s is .inf, must be a finite"),
        ("cache_hit_rate: 0.9", "cache: {model: ttl, hit_rate: 1}", 8, "The fields are kept_s, model, most_hit_rate."),
        (
            "cache_hit_rate: 0.9",
            "cache:\n      model: lru\n      host_memory_gb: 100",
            10,
            "cache.host_memory_gb is not a field. Did you mean 'host_memory_gb_per_gpu'? The fields are host_memory",
        ),
        ("cache_hit_rate: 0.9", "cache: 0.9", 8, "cache is 0.9, must be a mapping of fields."),
        ("cache_hit_rate: 0.9", "cache_hit_rate: 0.9\n    cache: {hit_rate: 1}", 2, "give one of them."),
        (
            "cache_hit_rate: 0.9",
            "cache_hit_rate: 0.9\n    sessions: 2.5",
            9,
            "sessions is 2.5, must be a whole number",
        ),
        ("cache_hit_rate: 0.9", "cache_hit_rate: 0.9\n    gpus: 8", 2, "give sessions too."),
        (
            "cache_hit_rate: 0.9",
            "cache_hit_rate: 0.9\n    name: 12",
            9,
            "name is 12, must be text (put it in quotes).",
        ),
    ],
)
def test_a_wrong_field_is_named_with_its_line(write: Write, written: str, instead: str, line: int, said: str) -> None:
    path = write(SCENARIO.replace(written, instead))
    assert f"{path}: scenario 'mine' (line {line}): " in scenario_refusal(path)
    assert said in scenario_refusal(path)


def test_one_slip_makes_one_sentence(write: Write) -> None:
    path = write(SCENARIO.replace("8e3", "1,000"))
    assert len(scenario_refusal(path).splitlines()) == 1  # n1 has no default then; that is not said too


def test_all_that_is_wrong_is_said_at_once(write: Write) -> None:
    second = (
        SCENARIO.replace("scenarios:\n", "").replace("slug: mine", "slug: Second One").replace("turns: 4", "turns: x")
    )
    path = write(SCENARIO.replace("2.5", "-1") + second)
    lines = scenario_refusal(path).splitlines()
    assert lines[0] == f"{path}: scenario 'mine' (line 4): think_time_s is -1, must be 0 or more."
    assert lines[1].startswith(
        f"{path}: scenario 'Second One' (line 9): slug is 'Second One', must be lower-case letters"
    )
    assert lines[2].startswith(f"{path}: scenario 'Second One' (line 10): turns is 'x', must be a number")
    assert len(lines) == 3


def test_long_lists_of_problems_are_cut(write: Write) -> None:
    path = write("scenarios:\n" + "  - {}\n" * 50)
    lines = scenario_refusal(path).splitlines()
    assert len(lines) == 21
    assert lines[-1].startswith("... and ")


def test_a_slug_twice_in_a_file(write: Write) -> None:
    path = write(SCENARIO + SCENARIO.replace("scenarios:\n", ""))
    assert scenario_refusal(path) == f"{path}: scenario 'mine' (line 9): line 2 has this slug too."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty; it must hold a list of entries under `scenarios:`."),
        ("# only a comment\n", "is empty;"),
        ("just words", "(line 1): is 'just words'; it must hold"),
        ("- slug: x\n", "(line 1): is a list; it must hold"),
        ("scenarios: []", "(line 1): 'scenarios' is an empty list;"),
        ("scenarios:\n", "'scenarios' is empty;"),
        ("scenarios: {slug: x}", "'scenarios' is a mapping;"),
        ("scenarios: 3", "'scenarios' is 3;"),
        ("hardware:\n  - slug: x\n", "(line 1): 'hardware' is not expected here;"),
        (SCENARIO + "scenario: []\n", "(line 9): 'scenario' is not expected here;"),
        ("scenarios: [1]", "scenario number 1 (line 1): the entry is 1, must be a mapping of fields."),
        ("scenarios: [{slug: [a]}]", "scenario number 1 (line 1): slug is a list, must be text"),
        (
            SCENARIO.replace("    turns: 4\n", "    turns: 4\n    turns: 5\n"),
            "(line 4): 'turns' is given twice",
        ),
        ("scenarios: !!python/object:os.system {}", "'!!python/object:os.system' is not allowed"),
    ],
)
def test_a_wrong_shape_is_named(write: Write, text: str, said: str) -> None:
    path = write(text)
    message = scenario_refusal(path)
    assert message.startswith(str(path))
    assert said in message


def test_a_binary_file(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(b"\x1f\x8b\x08\x00\xff\xfe")
    assert scenario_refusal(path) == f"{path}: is not a text file in UTF-8."


def test_a_spec_that_is_neither(tmp_path: Path) -> None:
    message = scenario_refusal("code-agnt")
    assert message == (
        "'code-agnt' is neither a scenario of the catalogue nor a file. Did you mean 'code-agent'?"
        " Known: code-agent, research-agent, deep-reasoning, claude-code, chat-with-tools, agentx-replay, mini-swe;"
        " or name a YAML file with a list under `scenarios:`."
    )
    assert "neither" in scenario_refusal("x" * 5_000)
    assert "neither" in scenario_refusal("a\0b")
    assert "is a folder" in scenario_refusal(tmp_path)


@pytest.mark.parametrize(
    ("written", "instead", "said"),
    [
        ("hbm_bytes: 96e9", "hbm_bytes: 96.5", "(line 5): hbm_bytes is 96.5, must be a whole number"),
        ("hbm_bytes: 96e9", "hbm_bytes: 0", "(line 5): hbm_bytes is 0, must be more than 0."),
        ("hbm_bytes: 96e9", "hbm_bytes: 96 GB", "(line 5): hbm_bytes is '96 GB', must be a whole number"),
        ("fp8: 2.0e15", "fp6: 2.0e15", "(line 8): flops_per_s.fp6 is not a field. Did you mean"),
        ("fp8: 2.0e15", "fp8: .inf", "(line 8): flops_per_s.fp8 is .inf, must be a finite number."),
        ("fp8: 2.0e15", "fp8: false", "(line 8): flops_per_s.fp8 is false, must be a number"),
        ("[lab-gpu]", "lab-gpu", "(line 4): aliases is 'lab-gpu', must be a list."),
        ("[lab-gpu]", "[1]", "(line 4): aliases[0] is 1, must be text"),
        ("slug: my-gpu", "slug: ../x", "slug is '../x', must be lower-case letters"),
        (
            "vendor: Mine",
            "sources: {hbm_byte: here}",
            "sources names 'hbm_byte', which is no figure. Did you mean 'hbm_bytes'?",
        ),
    ],
)
def test_wrong_hardware(write: Write, written: str, instead: str, said: str) -> None:
    assert said in hardware_refusal(write(GPU.replace(written, instead)))
