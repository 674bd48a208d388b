"""Loads the catalogues of hardware, models and scenarios: the shipped ones and the user's own files."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from pipelines.reading.yaml_files import YamlFile, YamlValue, read_yaml
from schemas.catalogue import Catalogue, HardwareCatalogue, ModelCatalogue
from schemas.errors import UserError
from schemas.hardware import Hardware
from schemas.models import ModelSpec
from schemas.prices import Price
from schemas.scenarios import Scenario
from schemas.sentences import explain, show
from schemas.suggest import did_you_mean

#: The folder of the shipped catalogues. Found beside this package, not by name: a folder of the
#: user's that happens to be called `data` must not stand in for it.
SHIPPED: Final = Path(__file__).resolve().parents[2] / "data"
SHIPPED_TABLES: Final = SHIPPED / "tables"
#: What `python -m pipelines.live.coverage ship` writes: tables, and what became of every question.
COVERAGE_TABLES: Final = SHIPPED_TABLES / "aiconfigurator" / "coverage"
COVERAGE_ACCOUNT: Final = SHIPPED / "coverage.csv"

_MAX_PROBLEMS_SHOWN: Final = 20

EntryT = TypeVar("EntryT", bound=BaseModel)
CatalogueT = TypeVar("CatalogueT", bound=Catalogue[Any])


@dataclass(frozen=True)
class _Kind(Generic[EntryT]):
    """One kind of catalogue file: a mapping whose only key holds the list of entries."""

    key: str
    entry: str  #: what one entry is called in messages
    model: type[EntryT]


_HARDWARE: Final = _Kind("hardware", "hardware", Hardware)
_MODELS: Final = _Kind("models", "model", ModelSpec)
_SCENARIOS: Final = _Kind("scenarios", "scenario", Scenario)
_PRICES: Final = _Kind("prices", "price", Price)


def load_hardware(path: Path | None = None) -> HardwareCatalogue:
    """The shipped hardware catalogue and, where a file is given, its entries (a list under ``hardware:``).

    Raises ``UserError`` if the file is unusable or claims a slug or name of a different GPU.
    """
    shipped = _shipped_hardware()
    return shipped if path is None else _extended(shipped, path, _read_entries(path, _HARDWARE))


def load_models(path: Path | None = None) -> ModelCatalogue:
    """The shipped model catalogue and, where a file is given, its entries (a list under ``models:``).

    Raises ``UserError`` if the file is unusable or claims a slug or name of a different model.
    """
    shipped = _shipped_models()
    return shipped if path is None else _extended(shipped, path, _read_entries(path, _MODELS))


def user_models_file() -> Path:
    """Where `models add` keeps a user's models: ``agent-pareto/models.yaml`` in the configuration folder."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    folder = Path(base) if Path(base).is_absolute() else Path.home() / ".config"
    return folder / "agent-pareto" / "models.yaml"


def own_models_file() -> Path | None:
    """The file of `models add`, for `load_models`; None where nothing was added."""
    path = user_models_file()
    return path if path.is_file() else None


def load_scenarios(specs: Sequence[str] = ()) -> tuple[Scenario, ...]:
    """The scenarios that the specs name: each spec is a shipped scenario's slug or a YAML file.

    Without specs, those that a build uses by default. A scenario named twice counts once. Raises ``UserError``
    if a spec is neither, if a file is unusable, or if two different scenarios share a slug.
    """
    if not specs:
        return _default_scenarios()
    shipped = {scenario.slug: scenario for scenario in shipped_scenarios()}
    chosen: dict[str, tuple[Scenario, str]] = {}
    for spec in specs:
        for scenario in _named_scenarios(spec, shipped):
            first, origin = chosen.setdefault(scenario.slug, (scenario, spec))
            if first != scenario:
                raise UserError(
                    f"{spec}: scenario {scenario.slug!r} differs from the one of the same slug in {origin};"
                    " give one of them another slug."
                )
    return tuple(scenario for scenario, _ in chosen.values())


def load_prices(path: Path | None, hardware: HardwareCatalogue) -> tuple[Price, ...]:
    """The price list (a list under ``prices:``), its hardware as slugs of the catalogue; empty without a file.

    Raises ``UserError`` if the file is unusable, names hardware that is not in the catalogue, or one twice.
    """
    prices: dict[str, Price] = {}
    for price in _read_entries(path, _PRICES) if path is not None else ():
        try:
            slug = hardware.find(price.hardware).slug
        except UserError as error:
            raise UserError(f"{path}: {error}") from None
        if slug in prices:
            raise UserError(f"{path}: {slug!r} has two prices; a price list has one for each GPU.")
        prices[slug] = price.model_copy(update={"hardware": slug})
    return tuple(prices.values())


def shipped_scenarios() -> tuple[Scenario, ...]:
    """All shipped scenarios: first those that a build uses by default, then those that it uses when named."""
    return _default_scenarios() + _further_scenarios()


def _read_entries(path: Path, kind: _Kind[EntryT], known: Mapping[str, EntryT] | None = None) -> tuple[EntryT, ...]:
    """The entries of one catalogue file, at least one; ``known`` are those that it may name beside its own.

    Raises ``UserError`` that lists what is wrong with the file, entry by entry, each with its line.
    """
    file = read_yaml(path)
    written = _listed(file, kind)
    problems: list[str] = []
    entries: dict[int, EntryT] = {}
    first_line: dict[str, int] = {}
    # what names other entries is read after them
    for number, value in sorted(enumerate(written), key=lambda entry: _names_others(entry[1])):
        label = f"{kind.entry} {_label(value, number)}"
        line = file.line((kind.key, number))
        if _names_others(value):
            value, unknown = _with_named(
                value, {**(known or {}), **{_slug(entry): entry for entry in entries.values()}}
            )
            problems += [f"{file.name}: {label} (line {line}): {sentence}" for sentence in unknown]
            if unknown:
                continue
        try:
            # Strict: text is no number and a number no text. YAML has told them apart already.
            entry = kind.model.model_validate(value, strict=True)
        except ValidationError as error:
            for problem in explain(error, kind.model, value):
                line = file.line((kind.key, number, *problem.location))
                problems.append(f"{file.name}: {label} (line {line}): {problem.sentence}")
            continue
        slug = _slug(entry) or f"number {number + 1}"  # a price has none
        if slug in first_line:
            problems.append(f"{file.name}: {label} (line {line}): line {first_line[slug]} has this slug too.")
        first_line.setdefault(slug, line)
        entries[number] = entry
    if problems:
        left = len(problems) - _MAX_PROBLEMS_SHOWN
        more = [f"... and {left} more."] if left > 0 else []
        raise UserError("\n".join(problems[:_MAX_PROBLEMS_SHOWN] + more))
    return tuple(entries[number] for number in sorted(entries))


def _slug(entry: BaseModel) -> str:
    return str(getattr(entry, "slug", ""))


def _names_others(value: YamlValue) -> bool:
    """Whether an entry is a mix of others."""
    return isinstance(value, dict) and isinstance(value.get("mix"), tuple)


def _with_named(value: Any, known: Mapping[str, BaseModel]) -> tuple[Any, list[str]]:
    """A mix with the scenarios in place of their slugs, and a sentence for each that is not known."""
    parts, unknown = [], []
    for part in value["mix"]:
        named = part.get("scenario") if isinstance(part, dict) else None
        if isinstance(named, str) and named not in known:
            unknown.append(f"{named!r} is no scenario of this file or the catalogue.{did_you_mean(named, known)}")
        elif isinstance(named, str):
            part = {**part, "scenario": known[named]}
        parts.append(part)
    return {**value, "mix": tuple(parts)}, unknown


@cache
def _shipped_hardware() -> HardwareCatalogue:
    return HardwareCatalogue(_read_entries(SHIPPED / "hardware.yaml", _HARDWARE))


@cache
def _shipped_models() -> ModelCatalogue:
    return ModelCatalogue(_read_entries(SHIPPED / "models.yaml", _MODELS))


@cache
def _default_scenarios() -> tuple[Scenario, ...]:
    return _read_entries(SHIPPED / "scenarios.yaml", _SCENARIOS)


@cache
def _further_scenarios() -> tuple[Scenario, ...]:
    default = {scenario.slug: scenario for scenario in _default_scenarios()}
    return _read_entries(SHIPPED / "further_scenarios.yaml", _SCENARIOS, default)


def _extended(shipped: CatalogueT, path: Path, added: Iterable[Any]) -> CatalogueT:
    try:
        return shipped.extended(added)
    except UserError as error:
        raise UserError(f"{path}: {error} Give your own entry another slug, name or alias.") from None


def _named_scenarios(spec: str, shipped: Mapping[str, Scenario]) -> tuple[Scenario, ...]:
    if spec in shipped:
        return (shipped[spec],)
    try:
        is_there = Path(spec).exists()
    except (OSError, ValueError):  # too long for a path, or with a NUL
        is_there = False
    if is_there:
        return _read_entries(Path(spec), _SCENARIOS, shipped)
    shown = spec if len(spec) <= 200 else spec[:197] + "..."
    raise UserError(
        f"{shown!r} is neither a scenario of the catalogue nor a file.{did_you_mean(spec, shipped)}"
        f" Known: {', '.join(shipped)}; or name a YAML file with a list under `scenarios:`."
    )


def _listed(file: YamlFile, kind: _Kind[Any]) -> tuple[YamlValue, ...]:
    shape = f"it must hold a list of entries under `{kind.key}:`"
    if file.value is None:
        raise UserError(f"{file.name}: is empty; {shape}.")
    if not isinstance(file.value, dict):
        raise UserError(f"{file.name} (line {file.line(())}): is {show(file.value)}; {shape}.")
    for key in file.value:
        if key != kind.key:
            raise UserError(f"{file.name} (line {file.line((key,))}): {key!r} is not expected here; {shape}.")
    listed = file.value.get(kind.key)
    if not isinstance(listed, tuple) or not listed:
        value = "an empty list" if listed == () else "missing" if kind.key not in file.value else show(listed)
        raise UserError(f"{file.name} (line {file.line((kind.key,))}): {kind.key!r} is {value}; {shape}.")
    return listed


def _label(value: YamlValue, number: int) -> str:
    slug = value.get("slug") if isinstance(value, dict) else None
    return show(slug) if isinstance(slug, str) else f"number {number + 1}"
