"""Reads fields of a config.json: present and of the right type, or an error that names the field."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schemas.errors import UserError


@dataclass(frozen=True)
class RawConfig:
    """The part of a config.json that describes the language model, and the model's name for messages.

    A field that is null counts as absent. Every reader takes several spellings, the first present wins.
    """

    model: str
    fields: Mapping[str, Any]

    def has(self, *keys: str) -> bool:
        """Whether one of the fields is there and not null."""
        return any(self.fields.get(key) is not None for key in keys)

    def integer(self, *keys: str, default: int | None = None) -> int:
        """A positive whole number. Raises ``UserError`` where it is missing and has no default."""
        value = self._first(keys)
        if value is None:
            if default is None:
                raise self.missing(*keys)
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.wrong(keys, value, "a whole number, 0 or more")
        return value

    def positive(self, *keys: str, default: int | None = None) -> int:
        """As ``integer``, but not 0."""
        value = self.integer(*keys, default=default)
        if value == 0:
            raise self.wrong(keys, value, "more than 0")
        return value

    def number(self, *keys: str, default: float | None = None) -> float:
        """A finite number."""
        value = self._first(keys)
        if value is None:
            if default is None:
                raise self.missing(*keys)
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self.wrong(keys, value, "a finite number")
        return float(value)

    def flag(self, *keys: str, default: bool) -> bool:
        """True or false."""
        value = self._first(keys)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.wrong(keys, value, "true or false")
        return value

    def text(self, *keys: str, default: str | None = None) -> str:
        """A text."""
        value = self._first(keys)
        if value is None:
            if default is None:
                raise self.missing(*keys)
            return default
        if not isinstance(value, str):
            raise self.wrong(keys, value, "a text")
        return value

    def items(self, *keys: str) -> list[Any] | None:
        """A list, or None where it is absent."""
        value = self._first(keys)
        if value is not None and not isinstance(value, list):
            raise self.wrong(keys, value, "a list")
        return value

    def section(self, *keys: str) -> Mapping[str, Any] | None:
        """A mapping of fields, or None where it is absent."""
        value = self._first(keys)
        if value is not None and not isinstance(value, Mapping):
            raise self.wrong(keys, value, "a mapping of fields")
        return value

    def missing(self, *keys: str) -> UserError:
        """The error of a field that must be there."""
        return UserError(
            f"config.json of {self.model}: `{'` or `'.join(keys)}` is missing; there is no default for it."
        )

    def wrong(self, keys: tuple[str, ...], value: object, demand: str) -> UserError:
        """The error of a field that has an unusable value."""
        shown = repr(value) if len(repr(value)) <= 100 else repr(value)[:97] + "..."
        return UserError(f"config.json of {self.model}: `{keys[0]}` is {shown}, it must be {demand}.")

    def _first(self, keys: tuple[str, ...]) -> Any:
        return next((self.fields[key] for key in keys if self.fields.get(key) is not None), None)


def language_part(config: Mapping[str, Any], model: str) -> RawConfig:
    """The language model's fields of a config.json, ``text_config`` found where it is nested.

    What only the outer level says (quantisation, tied embeddings, dtype) is taken from there, and the
    outer ``tie_word_embeddings`` wins: it is the one that the checkpoint follows. Where the language model's
    part names no ``model_type``, the checkpoint's own stands for it.
    """
    if not isinstance(config, Mapping):
        raise UserError(f"config.json of {model}: must be a mapping of fields, as in a Hugging Face repository.")
    for key in ("text_config", "llm_config", "language_config"):
        nested = config.get(key)
        if isinstance(nested, Mapping):
            inherited = ("quantization_config", "dtype", "torch_dtype", "tie_word_embeddings")
            outer = {name: config[name] for name in inherited if config.get(name) is not None}
            merged = {**outer, **{name: value for name, value in nested.items() if value is not None}}
            if merged.get("model_type") is None and config.get("model_type") is not None:
                merged["model_type"] = config["model_type"]  # quantised checkpoints leave the inner one out
            if "tie_word_embeddings" in outer:
                merged["tie_word_embeddings"] = outer["tie_word_embeddings"]
            return RawConfig(model, merged)
    return RawConfig(model, config)
