"""What AIConfigurator is asked: standard workloads, and the scenarios' own."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from pipelines.live.program import Program
from schemas.catalogue import HardwareCatalogue, ModelCatalogue
from schemas.errors import UserError
from schemas.options import LiveOptions
from schemas.scenarios import Scenario
from schemas.suggest import nearest_few
from transforms.agent_points.selection.alternatives import own_workload

ServingMode = Literal["agg", "disagg"]
DEFAULT_BACKENDS: Final = ("trtllm",)
DEFAULT_GPUS: Final = (8,)
DEFAULT_WORKLOADS: Final = ("4000/1000",)


@dataclass(frozen=True)
class Question:
    """One table: a deployment's sweep at a workload, for each of the prefixes. Names as AIConfigurator has them."""

    system: str
    model: str
    backend: str
    total_gpus: int
    serving_mode: ServingMode
    isl: int
    osl: int
    prefixes: tuple[int, ...]
    kv_dtype: str | None = None  # of the checkpoint

    @property
    def name(self) -> str:
        """How the table is called in messages and in the lake."""
        prefixes = "+".join(map(str, self.prefixes))
        kv = "" if self.kv_dtype is None else f"__kv-{self.kv_dtype}"
        return (
            f"aiconfigurator/{self.system}__{self.model.replace('/', '--')}__{self.backend}__{self.total_gpus}gpus__"
            f"isl{self.isl}_osl{self.osl}_prefix{prefixes}__{self.serving_mode}{kv}.csv"
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def questions(
    options: LiveOptions,
    program: Program,
    scenarios: Iterable[Scenario],
    hardware: HardwareCatalogue,
    models: ModelCatalogue,
) -> list[Question]:
    """All that the options ask for, each once.

    Raises ``UserError`` with the nearest known name where AIConfigurator knows none such.
    """
    systems = [_system_of(name, program, hardware) for name in options.system]
    asked_models = [_model_of(name, program, models) for name in options.model]
    for system in systems:
        for backend in options.backend or DEFAULT_BACKENDS:
            if backend not in program.systems[system]:
                raise UserError(
                    f"--backend {backend}: AIConfigurator {program.version} has no data of {backend} on {system}; "
                    f"it has data of {', '.join(program.systems[system]) or 'no backend'}."
                )
    workloads = _workloads(options, scenarios)
    every = [
        Question(system, model, backend, gpus, mode, *workload)
        for system in systems
        for model in asked_models
        for backend in options.backend or DEFAULT_BACKENDS
        for gpus in options.total_gpus or DEFAULT_GPUS
        for mode, workload in workloads
    ]
    return list(dict.fromkeys(every))


def _workloads(
    options: LiveOptions, scenarios: Iterable[Scenario]
) -> list[tuple[ServingMode, tuple[int, int, tuple[int, ...]]]]:
    """Modes with input tokens, output tokens and prefixes."""
    modes: tuple[ServingMode, ...] = ("agg", "disagg")
    standard = [(mode, (*_lengths(text), (0,))) for text in options.workload or DEFAULT_WORKLOADS for mode in modes]
    own = [(mode, own_workload(scenario, mode)) for scenario in scenarios if scenario.mix is None for mode in modes]
    return standard + [(mode, (load.isl_tokens, load.osl_tokens, load.prefixes)) for mode, load in own]


def _lengths(text: str) -> tuple[int, int]:
    isl, osl = text.split("/")
    return int(isl), int(osl)


def _system_of(name: str, program: Program, hardware: HardwareCatalogue) -> str:
    if name in program.systems:
        return name
    gpu = hardware.lookup(name)
    same = [system for system in program.systems if gpu is not None and hardware.lookup(system) == gpu]
    return _the_one(name, same, "--system", program.systems, program.version)


def _model_of(name: str, program: Program, models: ModelCatalogue) -> str:
    spelled = [model for model in program.models if name.casefold() in (model.casefold(), _last(model).casefold())]
    if len(spelled) == 1:
        return spelled[0]
    spec = models.lookup(name)
    same = [model for model in program.models if spec is not None and models.lookup(model) == spec]
    return _the_one(name, same, "--model", program.models, program.version)


def _last(model: str) -> str:
    return model.rpartition("/")[2]


def _the_one(name: str, same: Sequence[str], option: str, known: Iterable[str], version: str) -> str:
    if len(same) == 1:
        return same[0]
    if same:
        raise UserError(f"{option} {name}: AIConfigurator {version} has several of it; name {' or '.join(same)}.")
    spellings = {spelling: model for model in known for spelling in (model, _last(model))}
    near = dict.fromkeys(spellings[spelling] for spelling in nearest_few(name, spellings))
    suggestion = f"Did you mean {' or '.join(near)}?" if near else f"It has {', '.join(sorted(known))}."
    raise UserError(f"{option} {name}: AIConfigurator {version} does not know it. {suggestion}")
