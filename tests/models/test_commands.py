"""`agent-pareto models`: list, show, add and refresh."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from pipelines.building.build_inputs import find
from pipelines.commands.models import app, slug_of
from pipelines.reading.catalogues import load_models, user_models_file
from pipelines.reading.model_configs import write_catalogue
from schemas.errors import UserError
from schemas.options import BuildOptions
from schemas.slugs import is_slug
from tests.models import configs


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def run_json(*arguments: str) -> Any:
    result = run(*arguments, "--format", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def error_of(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code != 0
    assert isinstance(result.exception, UserError), result.exception
    return str(result.exception)


@pytest.fixture(autouse=True)
def _own_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(configs.QWEN3_32B))
    return path


class TestList:
    def test_lists_every_model(self) -> None:
        result = run("list")
        assert result.exit_code == 0
        for spec in load_models():
            assert spec.slug in result.output

    def test_json_has_the_form_of_a_catalogue_file(self, tmp_path: Path) -> None:
        listed = run_json("list")
        path = tmp_path / "copy.yaml"
        path.write_text(json.dumps(listed))
        assert list(load_models(path)) == list(load_models())


class TestShow:
    #: Keys of the contract.
    KEYS = frozenset(
        {
            "parameters_total",
            "parameters_active",
            "parameters_non_expert",
            "weight_bytes",
            "kv_bytes_per_token",
            "kv_bytes_at_context",
            "kv_bytes_at_context_paged",
            "state_bytes_per_session",
            "kv_bytes_at_context_per_gpu",
            "max_context_tokens",
            "attention",
        }
    )

    def test_json_of_kimi(self) -> None:
        figures = run_json("show", "kimi-k2.5", "--context", "65536", "--tp", "8")
        assert set(figures) >= self.KEYS
        assert figures["parameters_total"] == 1_026_408_232_448 + 471_143_920
        assert figures["parameters_vision"] == 471_143_920
        assert figures["parameters_active"] == 32_861_500_928
        assert figures["parameters_non_expert"] == 1_026_408_232_448 - 1_014_686_023_680
        assert figures["weight_bytes"] == 594_205_904_896 + 2 * 471_143_920
        assert figures["kv_bytes_per_token"] == 70_272
        assert figures["kv_bytes_at_context"] == figures["kv_bytes_at_context_paged"] == 4_605_345_792
        assert figures["kv_bytes_at_context_per_gpu"] == 4_605_345_792  # the latent is copied on every GPU
        assert figures["state_bytes_per_session"] == 0
        assert figures["max_context_tokens"] == 262_144
        assert [(group["kind"], group["layers"]) for group in figures["attention"]] == [("mla", 61)]

    def test_windows_give_no_bytes_a_token_and_two_bounds(self) -> None:
        figures = run_json("show", "openai/gpt-oss-120b", "--context", "100000")
        assert figures["kv_bytes_per_token"] is None
        assert figures["kv_bytes_at_context"] == 18 * (128 + 100_000) * 2_048
        assert figures["kv_bytes_at_context_paged"] == 36 * 100_000 * 2_048

    def test_state_is_part_of_a_session(self) -> None:
        figures = run_json("show", "qwen3.5", "--context", "10000", "--kv-dtype", "fp8", "--tp", "4")
        assert figures["kv_bytes_per_token"] == 15 * 1_024
        assert figures["state_bytes_per_session"] == 192_061_440
        assert figures["kv_bytes_at_context"] == 15 * 1_024 * 10_000 + 192_061_440
        assert figures["kv_bytes_at_context_per_gpu"] == (15 * 1_024 * 10_000 * 2 + 192_061_440) / 4
        assert figures["kv_bytes_at_context_paged"] > figures["kv_bytes_at_context"]

    def test_data_parallel_ranks_hold_the_whole_non_expert_part(self) -> None:
        spec = load_models().find("deepseek-v3")
        figures = run_json("show", "deepseek-v3", "--tp", "2", "--dp", "4")
        assert figures["weight_bytes_per_gpu"] == (spec.non_expert_bytes() + spec.expert_bytes() / 4) / 2

    def test_context_defaults_to_the_models_if_that_is_shorter(self) -> None:
        assert run_json("show", "qwen3-32b")["context_tokens"] == 32_768
        assert run_json("show", "nemotron-h-56b")["context_tokens"] == 8_192

    def test_sheet_can_be_checked_by_hand(self) -> None:
        sheet = run("show", "kimi-k2.5", "--tp", "8").output
        for line in (
            "= 11,722,208,768 + 1,014,686,023,680 * 8/384 experts",
            "= 1,026,879,376,368 - 1,014,686,023,680 - 471,143,920",
            "= (24,386,751,456 + 570,761,441,280 / dp 1) / tp 8",
            "= 61 * 32,768 * 576 * 2",
            "x 8 copies at tp 8: 8 / min(8, 1 KV heads)",
        ):
            assert line in sheet
        assert 61 * 32_768 * 576 * 2 == 2_302_672_896
        assert "2,302,672,896" in sheet

    @pytest.mark.parametrize("slug", [spec.slug for spec in load_models()])
    def test_every_sheets_sums_are_right(self, slug: str) -> None:
        """Every line `figure = sum` of a sheet is evaluated as printed."""
        sheet = run("show", slug, "--context", "8000", "--tp", "2", "--dp", "2").output
        checked = 0
        for line in sheet.splitlines():
            if " = " not in line or "the sum" in line or " GB" in line:
                continue
            figure, formula = line.rsplit(" = ", 1)
            for words in (" experts", " state", " indexer key", "dp ", "tp "):
                formula = formula.replace(words, "")
            digits = figure.split()[-1].replace(",", "")
            while ", " in formula and "min(" not in formula:  # pragma: no cover - nothing but min has a blank
                raise AssertionError(line)
            plain = formula.replace(", ", ";").replace(",", "").replace(";", ", ")
            assert eval(plain, {"min": min}) == pytest.approx(float(digits), abs=1), line
            checked += 1
        assert checked >= 2

    def test_more_than_the_longest_context_is_noted(self) -> None:
        assert "more than the model's longest context" in run("show", "qwen3-32b", "--context", "50000").output

    def test_errors(self) -> None:
        assert "Did you mean" in error_of("show", "kimi-k2.55")
        assert "unknown; known are bf16" in error_of("show", "kimi-k2.5", "--kv-dtype", "fp3")


class TestAdd:
    def test_added_model_is_shown(self, config_file: Path, tmp_path: Path) -> None:
        own = tmp_path / "own" / "models.yaml"
        result = run("add", str(config_file), "--name", "My Qwen 3.9", "--catalogue", str(own))
        assert result.exit_code == 0, result.output
        figures = run_json("show", "my-qwen-3-9", "--catalogue", str(own))
        assert figures["parameters_total"] == 32_762_123_264
        assert figures["weight_bytes"] == 65_524_246_528
        assert run_json("show", "My Qwen 3.9", "--catalogue", str(own)) == figures

    def test_a_second_model_keeps_the_first(self, config_file: Path, tmp_path: Path) -> None:
        own = tmp_path / "models.yaml"
        assert run("add", str(config_file), "--name", "one", "--catalogue", str(own)).exit_code == 0
        one = load_models(own).find("one")
        served = ("--name", "two", "--weight-dtype", "nvfp4")
        assert run("add", str(config_file), *served, "--catalogue", str(own)).exit_code == 0
        assert load_models(own).find("one") == one
        assert load_models(own).find("two").weight_dtype == "nvfp4"
        assert [path.name for path in tmp_path.glob("*models*")] == ["models.yaml"]

    def test_default_file_is_the_users(self, config_file: Path) -> None:
        assert run("add", str(config_file), "--name", "mine").exit_code == 0
        assert user_models_file().is_file()
        assert run_json("show", "mine")["parameters_total"] == 32_762_123_264

    def test_hf_quant_config_beside_it_is_read(self, config_file: Path, tmp_path: Path) -> None:
        beside = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
        (tmp_path / "hf_quant_config.json").write_text(json.dumps(beside))
        assert run("add", str(tmp_path), "--name", "mine").exit_code == 0
        figures = run_json("show", "mine")
        assert (figures["weight_dtype"], figures["kv_dtype"]) == ("nvfp4", "fp8")

    def test_taken_names(self, config_file: Path, tmp_path: Path) -> None:
        own = str(tmp_path / "models.yaml")
        says = error_of("add", str(config_file), "--name", "Kimi K2.5", "--catalogue", own)
        assert "'kimi-k2-5' already names the model 'kimi-k2-5'" in says
        says = error_of("add", str(config_file), "--name", "dsr1", "--catalogue", own)
        assert "'dsr1' already names the model 'deepseek-r1'" in says
        assert not Path(own).exists()
        assert run("add", str(config_file), "--name", "mine", "--catalogue", own).exit_code == 0
        before = Path(own).read_bytes()
        assert "'mine' already names" in error_of("add", str(config_file), "--name", "mine", "--catalogue", own)
        assert Path(own).read_bytes() == before

    @pytest.mark.parametrize(
        ("content", "says"),
        [
            ("{", "is not valid JSON"),
            ("[]", "must hold one JSON object"),
            (json.dumps(configs.QWEN3_32B | {"model_type": "qwen9"}), "model type 'qwen9' is not known"),
            (json.dumps(configs.QWEN3_32B | {"num_hidden_layers": None}), "`num_hidden_layers` is missing"),
        ],
    )
    def test_unusable_configs_write_nothing(self, content: str, says: str, config_file: Path, tmp_path: Path) -> None:
        config_file.write_text(content)
        own = tmp_path / "models.yaml"
        assert says in error_of("add", str(config_file), "--name", "mine", "--catalogue", str(own))
        assert not own.exists()

    def test_missing_config(self, tmp_path: Path) -> None:
        assert "there is no such file" in error_of("add", str(tmp_path / "none.json"), "--name", "mine")

    @pytest.mark.parametrize(
        ("name", "slug"),
        [
            ("Kimi K9", "kimi-k9"),
            ("llama-3.1-70b", "llama-3-1-70b"),
            ("A__b..C", "a-b-c"),
            ("70B", "m-70b"),
            ("true", "m-true"),
        ],
    )
    def test_slugs(self, name: str, slug: str) -> None:
        assert slug_of(name) == slug

    @pytest.mark.parametrize("name", ["-", "..", "模型", "x" * 81])
    def test_names_that_leave_no_slug_get_a_hash(self, name: str) -> None:
        slug = slug_of(name)
        assert is_slug(slug)
        assert slug != slug_of(name + " ")

    def test_two_names_never_share_a_slug(self) -> None:
        assert slug_of("org/model?x") == slug_of("org/model#x") == "org-model-x"
        assert slug_of("org/model#x", taken={"org-model-x"}).startswith("org-model-x-")

    def test_empty_name(self) -> None:
        with pytest.raises(UserError, match="--name is empty"):
            slug_of(" ")


class TestRefresh:
    def test_derives_the_figures_anew(self, tmp_path: Path) -> None:
        (tmp_path / "Qwen--Qwen3-32B_config.json").write_text(json.dumps(configs.QWEN3_32B))
        catalogue = tmp_path / "models.yaml"
        catalogue.write_text("models:\n  - {slug: q, name: Q, aliases: [q.q], source: Qwen/Qwen3-32B config.json}\n")
        assert run("refresh", "--configs", str(tmp_path), "--catalogue", str(catalogue)).exit_code == 0
        spec = load_models(catalogue).find("q.q")
        assert (spec.slug, spec.parameters_total) == ("q", 32_762_123_264)

    def test_a_repackagings_formats_can_be_left_out(self, tmp_path: Path) -> None:
        quantised = configs.QWEN3_32B | {"quantization_config": {"quant_method": "fp8"}}
        (tmp_path / "a--b_config.json").write_text(json.dumps(quantised))
        catalogue = tmp_path / "models.yaml"
        entry = "{slug: q, name: Q, source: a/b config.json without its quantization_config}"
        catalogue.write_text(f"models:\n  - {entry}\n")
        assert run("refresh", "--configs", str(tmp_path), "--catalogue", str(catalogue)).exit_code == 0
        assert load_models(catalogue).find("q").weight_dtype == "bf16"

    def test_names_a_missing_config(self, tmp_path: Path) -> None:
        catalogue = tmp_path / "models.yaml"
        catalogue.write_text("models:\n  - {slug: q, name: Q, source: a/b config.json}\n")
        assert "a--b_config.json: there is no such file" in error_of(
            "refresh", "--configs", str(tmp_path), "--catalogue", str(catalogue)
        )


def test_what_was_added_is_in_the_next_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --models a build takes what `models add` wrote; a file that is named takes its place."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    table = tmp_path / "t.csv"
    table.write_text("tp\n1\n")
    options = BuildOptions(tables=(table,))
    assert find(options).models.lookup("mine") is None
    spec = load_models().get("llama-3-1-8b").model_copy(update={"slug": "mine", "name": "Mine", "aliases": ()})
    write_catalogue(user_models_file(), [spec], "")
    assert find(options).models.get("mine").parameters_total == spec.parameters_total
    other = tmp_path / "other.yaml"
    write_catalogue(other, [spec.model_copy(update={"slug": "other", "name": "Other"})], "")
    named = find(options.model_copy(update={"models": other})).models
    assert (named.lookup("other") is not None, named.lookup("mine")) == (True, None)
