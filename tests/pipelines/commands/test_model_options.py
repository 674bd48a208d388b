"""Options of commands are the fields of their models: names, units, limits, defaults and help come from there."""

import re
from typing import Any

import pytest
import typer
from pydantic import BaseModel
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.commands.build import TakesBuildOptions, build_options
from pipelines.commands.model_options import option_name
from schemas.changes import ScenarioChanges, ServingChanges, WorkloadChanges
from schemas.errors import UserError
from schemas.options import BuildOptions, PlanLimits, RunOptions

#: Names that options had before, and keep.
FORMER_NAMES = {"min_tokens_per_s_per_user": ("--min-tokens-per-s-per-user",)}
MODELS: dict[str, tuple[type[BaseModel], ...]] = {
    "build": (BuildOptions, RunOptions),
    "schedule": (BuildOptions, RunOptions),
    "plan": (WorkloadChanges, PlanLimits),
    "what-if": (ScenarioChanges, ServingChanges),
}
OPTIONS = [
    (command, model, name) for command, models in MODELS.items() for model in models for name in model.model_fields
]


def parsed(*arguments: str) -> tuple[BuildOptions, RunOptions]:
    """What a command that takes the options of a build is given for these arguments."""
    seen: list[tuple[BuildOptions, RunOptions]] = []
    small = typer.Typer()

    @small.command(cls=TakesBuildOptions)
    def command(context: typer.Context) -> None:
        seen.append(build_options(context))

    result = CliRunner().invoke(small, list(arguments))
    if isinstance(result.exception, UserError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return seen[0]


@pytest.mark.parametrize(("command", "model", "name"), OPTIONS)
def test_each_field_is_an_option_with_its_description(command: str, model: type[BaseModel], name: str) -> None:
    named: Any = typer.main.get_command(app).commands[command]  # type: ignore[attr-defined]
    (option,) = (option for option in named.get_params(typer.Context(named)) if option.name == name)
    assert option.opts == [option_name(model, name), *FORMER_NAMES.get(name, ())]
    assert option.help == model.model_fields[name].description
    assert re.fullmatch(r"[\w/].+[.)]", option.help)


def test_without_arguments_every_default_is_the_models() -> None:
    assert parsed() == (BuildOptions(), RunOptions())


def test_units_lists_and_choices() -> None:
    options, run = parsed(
        "--overhead-gb", "1.5", "--wait-minutes", "0.5", "--threads", "3", "--scenarios", "code-agent",
        "--scenarios", "mine.yaml", "--no-synthesize", "--kv-context", "peak", "--idle-kv", "offloaded",
        "--host-memory-gb", "64",
    )  # fmt: skip
    assert options == BuildOptions(
        overhead_bytes_per_gpu=1.5e9, scenarios=("code-agent", "mine.yaml"), synthesize=False, kv_context="peak",
        idle_kv="offloaded", host_memory_bytes_per_gpu=64e9,
    )  # fmt: skip
    assert run == RunOptions(wait_s=30.0, threads=3)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--workload", "4000"), "--workload: '4000' is not tokens in and tokens out, such as 4000/1000."),
        (("--backend", "tgi"), "--backend: input should be 'trtllm', 'vllm' or 'sglang'."),
        (("--host-memory-gb", "64"), "--idle-kv offloaded and --host-memory-gb go together: give both or neither."),
        (("--system", "h200_sxm"), "--system says what AIConfigurator is asked: give --source aiconfigurator too."),
        (("--dask-address", "tcp://x:1"), "--dask-address is for --runner dask: give both, or neither."),
    ],
)
def test_what_a_model_refuses_is_said_by_the_options_name(arguments: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(UserError, match=re.escape(sentence)):
        parsed(*arguments)


@pytest.mark.parametrize("arguments", [("--reserve-fraction", "1"), ("--threads", "0"), ("--overhead-gb", "nan")])
def test_what_is_out_of_range_is_wrong_use(arguments: tuple[str, ...]) -> None:
    assert CliRunner().invoke(app, ["build", *arguments]).exit_code == 2
