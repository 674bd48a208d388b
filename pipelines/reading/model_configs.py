"""Model configs on disk: reads a config.json, and derives the shipped catalogue anew from such files."""

import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from pipelines.reading.yaml_files import read_yaml
from schemas.errors import UserError
from schemas.models import ModelSpec
from transforms.model_config import read_model_config
from transforms.model_config.serialise import to_yaml

MAX_BYTES: Final = 50_000_000  # ModelOpt lists every expert: a config.json of 3 MB is real

#: What a catalogue's ``source`` says where the config is a repackaging's and the model is not.
UNQUANTISED: Final = "without its quantization_config"
#: The same where the model is the language model alone of a checkpoint with towers.
LANGUAGE_PART: Final = "its language part"
#: The same where the folder of configs does not have it: a refresh keeps the entry as it is.
KEPT: Final = "kept by a refresh"
_TOWERS: Final = ("vision_config", "audio_config")

HEADER: Final = """\
# The models that ship with Agent Pareto. Written by hand: slug, name, aliases and source. Everything else is
# derived from the config.json that `source` names; after a change of the parser or of an entry, run
#   agent-pareto models refresh --configs FOLDER
# with a folder of files OWNER--NAME_config.json, such as model_configs/ of the package aiconfigurator-core.
# Parameters and bytes are those of the language model and, where the config describes it, of the vision tower in
# `vision`; draft (MTP) layers stand apart in `mtp`.
"""


def read_config_files(path: Path) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """A config.json and, where it lies beside it, the hf_quant_config.json of ModelOpt.

    A folder stands for the config.json in it. Raises ``UserError``.
    """
    if path.is_dir():
        path = path / "config.json"
    beside = path.with_name(path.name.replace("config.json", "hf_quant_config.json"))
    quantised = beside != path and beside.exists()
    return _read_json(path), _read_json(beside) if quantised else None


def write_catalogue(path: Path, specs: list[ModelSpec], header: str = "") -> None:
    """Write a catalogue file in one step: a reader sees the old one or the new one."""
    text = to_yaml(specs, header)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, aside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
            os.chmod(aside, mode)
            os.replace(aside, path)
        except BaseException:
            Path(aside).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror or error}).") from None


def refreshed_models(catalogue: Path, configs: Path) -> list[ModelSpec]:
    """The entries of a catalogue file with their figures derived anew from a folder of configs.

    Of each entry only slug, name, aliases and source are read. Raises ``UserError`` where a source's
    config is not in the folder.
    """
    listed = read_yaml(catalogue).value
    entries = listed.get("models") if isinstance(listed, Mapping) else None
    if not isinstance(entries, tuple):
        raise UserError(f"{catalogue}: it must hold a list of entries under `models:`.")
    return [_derived(entry, catalogue, configs) for entry in entries]


def config_file_of(source: str, configs: Path) -> Path:
    """The file of the config that a catalogue's ``source`` begins with: ``OWNER/NAME config.json``."""
    repository = source.split(" ", 1)[0]
    return configs / f"{repository.replace('/', '--')}_config.json"


def derive_model(source: str, configs: Path, *, slug: str, name: str, aliases: Iterable[str] = ()) -> ModelSpec:
    """The model whose figures a source's config in the folder gives. Raises ``UserError``."""
    config, quant_config = read_config_files(config_file_of(source, configs))
    if UNQUANTISED in source:
        config, quant_config = _without_quantization(config), None
    if LANGUAGE_PART in source:
        config = {key: value for key, value in config.items() if key not in _TOWERS}
    return read_model_config(config, slug=slug, name=name, source=source, quant_config=quant_config, aliases=aliases)


def _derived(entry: object, catalogue: Path, configs: Path) -> ModelSpec:
    if not isinstance(entry, Mapping) or not all(isinstance(entry.get(key), str) for key in ("slug", "name", "source")):
        raise UserError(f"{catalogue}: each model needs slug, name and source.")
    if KEPT in entry["source"]:
        return ModelSpec.model_validate(entry)
    return derive_model(
        entry["source"],
        configs,
        slug=entry["slug"],
        name=entry["name"],
        aliases=tuple(str(alias) for alias in entry.get("aliases") or ()),
    )


def _without_quantization(config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _without_quantization(value) if isinstance(value, Mapping) else value
        for key, value in config.items()
        if key != "quantization_config"
    }


def _read_json(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UserError(f"{path}: is larger than {MAX_BYTES:,} bytes; this is not a config.json.")
        value = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file.") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error}).") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not a text file in UTF-8.") from None
    except (json.JSONDecodeError, RecursionError) as error:
        raise UserError(f"{path}: is not valid JSON ({error}).") from None
    if not isinstance(value, dict):
        raise UserError(f"{path}: must hold one JSON object, as the config.json of a Hugging Face repository.")
    return value
