"""Whatever a file holds, the loaders return entries or raise a UserError."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.reading.catalogues import load_hardware, load_scenarios
from schemas.errors import UserError
from schemas.hardware import Hardware
from schemas.scenarios import Scenario

FIELDS = [*Scenario.model_fields, *Hardware.model_fields, "cache_hit_rate", "hit_rate", "model", "bf16", "<<"]

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=10**300, max_value=10**301)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["1,000", "1e3", ".nan", "-.inf", "mine", "!!python/none", "*a", "0x1F", "1:30"])
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=8), inner, max_size=6)
    ),
    max_leaves=20,
)

GOOD_SCENARIO: dict[str, Any] = {
    "slug": "mine",
    "turns": 4,
    "think_time_s": 1,
    "initial_prompt_tokens": 8_000,
    "new_tokens_per_turn": 400,
    "output_tokens_per_turn": 200,
    "cache_hit_rate": 0.9,
}
GOOD_GPU: dict[str, Any] = {
    "slug": "my-gpu",
    "vendor": "Mine",
    "hbm_bytes": 1,
    "hbm_printed_gb": 1,
    "hbm_bandwidth_bytes_per_s": 1,
    "flops_per_s": {"bf16": 1},
    "gpus_per_node": 1,
    "scale_up_bytes_per_s": 1,
    "scale_out_bytes_per_s": 1,
    "host_link_bytes_per_s": 1,
}

many = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def load_both(path: Path) -> None:
    for load in (lambda: load_hardware(path), lambda: load_scenarios([str(path)])):
        said: str | None = None
        try:
            load()
        except UserError as error:
            said = str(error)
        assert said is None or said.startswith(str(path))


def as_yaml(value: Any) -> str:
    """JSON is YAML; NaN and infinity are spelled as YAML spells them."""
    return json.dumps(value).replace("NaN", ".nan").replace("Infinity", ".inf")


@many
@given(raw=st.binary(max_size=200))
def test_any_bytes(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(raw)
    load_both(path)


@many
@given(text=st.text(alphabet="ab:-[]{}&*!|>'\"#%@`\n ,?.~<1e+", max_size=60))
def test_any_text_of_yamls_own_signs(tmp_path: Path, text: str) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(text)
    load_both(path)


@many
@given(value=values)
def test_any_structure(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(as_yaml(value))
    load_both(path)


@many
@given(entries=st.lists(values, max_size=3), key=st.sampled_from(["hardware", "scenarios"]))
def test_any_entries(tmp_path: Path, entries: list[Any], key: str) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(as_yaml({key: entries}))
    load_both(path)


@many
@given(field=st.sampled_from(sorted(Scenario.model_fields)), value=values)
def test_any_value_of_a_scenarios_field(tmp_path: Path, field: str, value: Any) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(as_yaml({"scenarios": [GOOD_SCENARIO | {field: value}]}))
    said: str | None = None
    loaded: tuple[Scenario, ...] = ()
    try:
        loaded = load_scenarios([str(path)])
    except UserError as error:
        said = str(error)
    assert said is None or said.startswith(str(path))
    for scenario in loaded:
        for figure in (
            scenario.mean_context_tokens,
            scenario.peak_context_tokens,
        ):
            assert 0 < figure < 1e16
        assert not isinstance(value, bool) or field not in GOOD_SCENARIO


@many
@given(field=st.sampled_from(sorted(Hardware.model_fields)), value=values)
def test_any_value_of_a_gpus_field(tmp_path: Path, field: str, value: Any) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(as_yaml({"hardware": [GOOD_GPU | {field: value}]}))
    load_both(path)


@given(
    turns=st.floats(min_value=1, max_value=1e6),
    pause=st.floats(min_value=0, max_value=1e7),
    prompt=st.floats(min_value=1, max_value=1e9),
    new=st.floats(min_value=0.5, max_value=1e9),
    output=st.floats(min_value=1, max_value=1e9),
    kept=st.floats(min_value=0, max_value=1),
    hits=st.floats(min_value=0, max_value=1),
)
@many
def test_what_is_written_is_read_back_exactly(
    tmp_path: Path,
    turns: float,
    pause: float,
    prompt: float,
    new: float,
    output: float,
    kept: float,
    hits: float,
) -> None:
    written = Scenario.model_validate(
        {
            "slug": "mine",
            "turns": turns,
            "think_time_s": pause,
            "initial_prompt_tokens": prompt,
            "new_tokens_per_turn": new,
            "output_tokens_per_turn": output,
            "output_retention_fraction": kept,
            "cache_hit_rate": hits,
        }
    )
    path = tmp_path / "f.yaml"
    path.write_text(json.dumps({"scenarios": [written.model_dump(mode="json", exclude_none=True)]}))
    assert load_scenarios([str(path)]) == (written,)


@pytest.mark.parametrize("good", [{"scenarios": [GOOD_SCENARIO]}, {"hardware": [GOOD_GPU]}])
def test_the_entries_that_are_varied_are_good(tmp_path: Path, good: dict[str, Any]) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(as_yaml(good))
    assert load_hardware(path).get("my-gpu") if "hardware" in good else load_scenarios([str(path)])
