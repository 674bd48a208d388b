"""Models of one architecture are known by their sheets, not by their names."""

from pipelines.reading.catalogues import load_models
from transforms.calibration.sharing import architectures

ALIKE = architectures(load_models())


def test_checkpoints_of_one_architecture_share_rows() -> None:
    assert ALIKE["deepseek-r1"] == ALIKE["deepseek-v3"] == ALIKE["deepseek-v3-1"]
    assert ALIKE["llama-3-1-70b"] == ALIKE["llama-3-3-70b"]
    assert ALIKE["kimi-k2-5"] == ALIKE["kimi-k2-6"]


def test_other_sizes_and_other_attention_do_not() -> None:
    names = ("llama-3-1-8b", "llama-3-1-70b", "deepseek-r1", "deepseek-v3-2", "kimi-k2-5")
    assert len({ALIKE[name] for name in names}) == len(names)


def test_a_renamed_model_is_still_the_same() -> None:
    spec = load_models().get("llama-3-1-70b")
    renamed = spec.model_copy(update={"slug": "mine", "name": "Mine", "aliases": ()})
    assert architectures([renamed, spec]) == {"mine": "mine", "llama-3-1-70b": "mine"}
