"""The model catalogue's files: nested entries, several names, and the shipped ones beside one's own.

A small stand-in takes the place of ``ModelSpec``, so that these tests are about files only.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from pipelines.reading import catalogues
from pipelines.reading.catalogues import load_models
from schemas.catalogue import ModelCatalogue
from schemas.errors import UserError


class Group(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    kv_heads: int
    window_tokens: int | None = None


class Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    slug: str
    name: str
    aliases: tuple[str, ...] = ()
    layers: int
    attention: tuple[Group, ...]
    moe: Group | None = None


DENSE = Spec(
    slug="tiny",
    name="Tiny",
    aliases=("org/Tiny-Instruct",),
    layers=2,
    attention=(Group(kv_heads=1), Group(kv_heads=2, window_tokens=128)),
)
SPARSE = DENSE.model_copy(
    update={"slug": "tiny-moe", "name": "Tiny MoE", "aliases": ("org/Tiny-MoE",), "moe": Group(kv_heads=3)}
)


def write(folder: Path, *models: Spec, name: str = "models.yaml") -> Path:
    path = folder / name
    path.write_text(json.dumps({"models": [model.model_dump(mode="json") for model in models]}))
    return path


def entries(catalogue: ModelCatalogue) -> list[object]:
    return list(catalogue)


@pytest.fixture(autouse=True)
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A shipped catalogue of one model."""
    (tmp_path / "shipped").mkdir()
    write(tmp_path / "shipped", DENSE)
    monkeypatch.setattr(catalogues, "SHIPPED", tmp_path / "shipped")
    monkeypatch.setattr(catalogues, "_MODELS", catalogues._Kind("models", "model", Spec))
    catalogues._shipped_models.cache_clear()
    yield
    catalogues._shipped_models.cache_clear()


def test_a_model_of_ones_own_joins_the_shipped_ones(tmp_path: Path) -> None:
    catalogue = load_models(write(tmp_path, SPARSE))
    assert entries(catalogue) == [DENSE, SPARSE]
    assert catalogue.find("ORG/tiny-moe").slug == "tiny-moe"
    assert entries(load_models()) == [DENSE]


def test_models_have_no_runner_index(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"Unknown model 'tiny_3'. Did you mean 'tiny'\? Known: tiny; add your own"):
        load_models().find("tiny_3")


def test_a_shipped_models_name_is_taken(tmp_path: Path) -> None:
    claimed = SPARSE.model_copy(update={"aliases": ("Org/tiny-instruct",)})
    with pytest.raises(UserError, match="model 'tiny-moe' and model 'tiny' both claim the name 'Org/tiny-instruct'"):
        load_models(write(tmp_path, claimed))


def test_a_shipped_model_may_be_repeated_but_not_changed(tmp_path: Path) -> None:
    assert entries(load_models(write(tmp_path, DENSE))) == [DENSE]
    with pytest.raises(UserError, match="model 'tiny' is defined twice, with different figures"):
        load_models(write(tmp_path, DENSE.model_copy(update={"layers": 3})))


@pytest.mark.parametrize(
    ("written", "instead", "said"),
    [
        ('"kv_heads": 2', '"kv_headz": 2', "attention[1].kv_headz is not a field. Did you mean 'kv_heads'?"),
        ('"kv_heads": 2', '"kv_heads": 2.5', "attention[1].kv_heads is 2.5, must be a whole number"),
        ('"kv_heads": 3', '"kv_headz": 3', "moe.kv_headz is not a field. Did you mean 'kv_heads'?"),
        ('"kv_heads": 3', '"kv_heads": true', "moe.kv_heads is true, must be a whole number"),
    ],
)
def test_a_wrong_field_within_a_list_or_a_part_is_named_with_its_line(
    tmp_path: Path, written: str, instead: str, said: str
) -> None:
    path = tmp_path / "f.yaml"
    text = json.dumps({"models": [SPARSE.model_dump(mode="json")]}, indent=1).replace(written, instead)
    path.write_text(text)
    line = next(number for number, each in enumerate(text.splitlines(), 1) if instead in each)
    with pytest.raises(UserError) as caught:
        load_models(path)
    assert f"{path}: model 'tiny-moe' (line {line}): {said}" in str(caught.value)


def test_a_catalogue_that_is_missing_is_named(tmp_path: Path) -> None:
    (tmp_path / "shipped" / "models.yaml").unlink()
    with pytest.raises(UserError, match=r"models\.yaml: there is no such file"):
        load_models()
