"""The priors of engines that ship with the program, and files of engines that were calibrated."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import yaml
from pydantic import ValidationError

from pipelines.reading.catalogues import SHIPPED
from schemas.engines import CalibratedEngine, EnginePriors, EnginesFile
from schemas.errors import UserError
from schemas.sentences import explain
from transforms.calibration.parameters import NAMES, PARAMETERS, WIDEST_FACTOR
from transforms.calibration.prior import LearntPriors

PRIORS_FILE = SHIPPED / "engine_priors.yaml"
_MOST_BYTES = 50_000_000


@cache
def load_priors() -> LearntPriors:
    """What is expected of engines, as shipped."""
    said = EnginePriors.model_validate(yaml.safe_load(PRIORS_FILE.read_text(encoding="utf-8")))
    modes = {"mode agg": said.agg, "mode disagg": said.disagg}
    return LearntPriors(
        logs={mode: _logs(each.typical) for mode, each in modes.items()},
        effects={
            mode: {trait: _logs(dict.fromkeys(NAMES, 1.0) | dict(own)) for trait, own in each.factors.items()}
            for mode, each in modes.items()
        },
        covariance={mode: np.array(each.covariance) for mode, each in modes.items()},
        deployments=said.deployments,
    )  # fmt: skip


def load_engines(path: Path) -> EnginesFile:
    """The engines of a file that ``calibrate`` wrote. Raises ``UserError`` where it is none."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UserError(f"{path} is too large for a file of engines.")
        said = EnginesFile.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as fault:
        raise UserError(f"{path} cannot be read: {fault.strerror}.") from fault
    except (yaml.YAMLError, UnicodeDecodeError) as fault:
        raise UserError(f"{path} is no YAML file: write it with `agent-pareto calibrate --out FILE`.") from fault
    except ValidationError as fault:
        problems = explain(fault, EnginesFile, None)
        raise UserError(f"{path} is no file of engines: {problems[0].sentence}") from fault
    for engine in said.engines:
        if problem := what_cannot_be(engine.parameters):
            raise UserError(f"{path}: {problem}. Write the file anew with `agent-pareto calibrate --out FILE`.")
    return said


def what_cannot_be(parameters: Mapping[str, float]) -> str | None:
    """A parameter that no fit reaches, in words: a fit stays within ``WIDEST_FACTOR`` of what is expected of an engine,
    and that within as much of what is typical."""
    for name, value in parameters.items():
        typical = PARAMETERS[name].typical if name in PARAMETERS else None
        if typical is None:
            return f"it has a parameter `{name}`, which no engine has"
        if abs(np.log(value / typical)) > 2 * np.log(WIDEST_FACTOR):
            return f"{name} of {value:g} is no engine's; typical is {typical:g}"
    return None


def engines_as_text(engines: Sequence[CalibratedEngine]) -> str:
    """The file ``engines.yaml``."""
    return as_yaml(EnginesFile(engines=tuple(engines)).model_dump(mode="json"))


def as_yaml(value: object) -> str:
    """YAML with rows of numbers on one line each."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    """Lists of plain values stand on one line."""


def _represent_list(dumper: yaml.SafeDumper, values: list[object]) -> yaml.Node:
    plain = all(isinstance(each, int | float) for each in values)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", values, flow_style=plain)


_Dumper.add_representer(list, _represent_list)


def _logs(values: dict[str, float]) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    return np.log([values[name] for name in NAMES])
