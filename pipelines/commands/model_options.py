"""Options of a command that are the fields of typed models: name, type, default, limits and help stand there, once.

class TakesBuild(CommandOfModels):
    def models(self): return BuildOptions, RunOptions

@app.command("build", cls=TakesBuild)
def build(context: typer.Context) -> None:
    options, run = given(context, BuildOptions), given(context, RunOptions)
"""

from collections.abc import Mapping, Sequence
from dataclasses import field, make_dataclass
from functools import cached_property
from inspect import get_annotations
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    from pydantic import BaseModel

    from schemas.options import GivenAs

ModelT = TypeVar("ModelT", bound="BaseModel")


class CommandOfModels(TyperCommand):
    """A command with an option for each field of its models; its function gets them from the context by ``given``."""

    def models(self) -> "Sequence[type[BaseModel]]":
        """The models. A function, so that a command imports them only when it runs or says its help."""
        raise NotImplementedError

    @cached_property
    def model_options(self) -> list[Any]:
        """The options of the fields. Typer makes them of the parameters of any callable, so also of a dataclass."""
        parameters = [_parameter(model, name) for model in self.models() for name in model.model_fields]
        app = typer.Typer(add_completion=False)
        app.command()(make_dataclass("Options", parameters, kw_only=True))
        return list(typer.main.get_command(app).params)

    def get_params(self, ctx: Any) -> list[Any]:
        """The function's own parameters, the options of the models, and ``--help``."""
        *own, help_option = super().get_params(ctx)
        return [*own, *self.model_options, help_option]

    def invoke(self, ctx: Any) -> Any:
        """Runs the function. Raises ``UserError`` where a model refuses its values."""
        values = {option.name: ctx.params.pop(option.name) for option in self.model_options}
        ctx.obj = {model: _validated(model, values) for model in self.models()}
        return super().invoke(ctx)


def given(context: typer.Context, model: type[ModelT]) -> ModelT:
    """What the command line says of a model. For functions of a ``CommandOfModels``."""
    options: ModelT = context.obj[model]
    return options


def option_name(model: "type[BaseModel]", name: str) -> str:
    """The option that gives a field: ``--overhead-gb`` for ``overhead_bytes_per_gpu``."""
    return "--" + (_given_as(model, name).name or name).replace("_", "-")


def refusals_in_words(model: "type[BaseModel]", problems: Sequence[Mapping[str, Any]]) -> str:
    """What a model has against its values, a line a problem, by the names that the command line has for its fields."""
    lines = []
    for problem in problems:
        message = str(problem["msg"]).removeprefix("Value error, ")
        if problem["loc"]:
            message = f"{option_name(model, str(problem['loc'][0]))}: {message[:1].lower()}{message[1:]}"
        lines.append(f"{message}.")
    return "\n".join(lines)


def _parameter(model: "type[BaseModel]", name: str) -> tuple[str, Any, Any]:
    """A field as Typer takes a parameter: its name, its type with what the option is, its default."""
    from annotated_types import Ge, Le

    described, as_given, option = model.model_fields[name], _given_as(model, name), option_name(model, name)
    kind, default, limits = described.annotation, described.default, described.metadata
    if get_origin(kind) is tuple:  # an option that may be repeated
        element, *about = _parts(get_args(kind)[0])
        limits = [limit for entry in about for limit in getattr(entry, "metadata", ())]
        element = element if isinstance(element, type) else str  # Typer takes no list of choices; the model does
        kind, default = list[element] | None, None  # type: ignore[valid-type]
    least: Any = next((limit.ge for limit in limits if isinstance(limit, Ge)), None)
    most: Any = next((limit.le for limit in limits if isinstance(limit, Le)), None)
    if as_given.factor != 1.0:
        default, least, most = (None if end is None else end / as_given.factor for end in (default, least, most))
    may_be_switched_off = kind == bool | None or default is True
    declared = f"{option}/--no-{option.removeprefix('--')}" if may_be_switched_off else option
    former = () if as_given.formerly is None else ("--" + as_given.formerly.replace("_", "-"),)
    information = typer.Option(
        declared,
        *former,
        help=described.description,
        metavar=as_given.metavar,
        envvar=as_given.environment,
        rich_help_panel=_panel(model, name),
        show_default=default is not None and kind is not bool,
        min=least,
        max=most,
    )
    return name, Annotated[kind, information], field(default=default)


def _validated(model: type[ModelT], values: Mapping[str, Any]) -> ModelT:
    """The model of the values that the command line gives. Raises ``UserError``."""
    from pydantic import ValidationError

    from schemas.errors import UserError

    fields = {}
    for name, described in model.model_fields.items():
        value, factor = values[name], _given_as(model, name).factor
        if value is None:
            value = described.default
        elif factor != 1.0:
            value *= factor
        fields[name] = value
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise UserError(refusals_in_words(model, error.errors(include_url=False))) from None


def _given_as(model: "type[BaseModel]", name: str) -> "GivenAs":
    from schemas.options import GivenAs

    return next((entry for entry in model.model_fields[name].metadata if isinstance(entry, GivenAs)), GivenAs())


def _panel(model: "type[BaseModel]", name: str) -> str | None:
    """The title of the class that declares the field: options of one class stand together in the help."""
    declaring: Any = next(base for base in model.__mro__ if name in get_annotations(base))
    title: str | None = declaring.model_config.get("title")
    return title


def _parts(annotation: Any) -> tuple[Any, ...]:
    """A type and what an ``Annotated`` says of it."""
    return get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
