"""`agent-pareto models`: the model catalogue."""

import re
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.commands.shared_options import DEFAULT_LAKE, AnswerFormatOption, LakeOption
from pipelines.terminal import print_text, say

if TYPE_CHECKING:
    from schemas.catalogue import ModelCatalogue
    from schemas.models import ModelSpec

app = typer.Typer(help="The model catalogue.", no_args_is_help=True)

#: Context of ``models show`` where none is given, or the longest of the model if that is shorter.
DEFAULT_CONTEXT_TOKENS = 32_768

CatalogueOption = Annotated[
    Path | None,
    typer.Option(
        "--catalogue",
        metavar="FILE",
        help="A YAML file whose models join the shipped ones. Default: agent-pareto/models.yaml in the"
        " user's configuration folder, if it is there.",
    ),
]


@app.callback()
def _group() -> None:
    """The model catalogue."""


@app.command("list")
def list_models(
    output_format: AnswerFormatOption = "table",
    catalogue: CatalogueOption = None,
    show_coverage: Annotated[
        bool,
        typer.Option("--coverage", help="What a lake knows each model on each GPU by: table, roofline ..., and why."),
    ] = False,
    lake: LakeOption = DEFAULT_LAKE,
) -> None:
    """List the models: parameters, weights as stored, KV bytes a token, longest context."""
    if show_coverage:
        _list_coverage(_load(catalogue), lake, output_format)
        return
    models = _load(catalogue)
    if output_format != "table":
        from pipelines.commands.output import print_answer
        from transforms.model_config.serialise import model_entry

        entries = [model_entry(spec) for spec in models]
        print_answer(output_format, {"models": entries}, entries)
        return
    from pipelines.terminal import print_table

    columns = (
        "slug",
        "total\n10^9",
        "active\n10^9",
        "weights\nGB",
        "weights\nas",
        "KV bytes\na token",
        "longest\ncontext",
    )
    caption = "Weights as the checkpoint stores them. KV in 2 bytes; '-': not linear in the tokens."
    print_table(columns, (_row(spec) for spec in models), caption=caption)


def _list_coverage(models: "ModelCatalogue", lake: Path, output_format: str) -> None:
    from dataclasses import asdict

    from pipelines.answering.coverage import KINDS, coverage
    from pipelines.commands.output import print_records
    from pipelines.lake.query import open_lake
    from pipelines.reading.catalogues import load_hardware

    with open_lake(lake) as opened:
        known = coverage(opened, models, load_hardware())
    if output_format != "table":
        print_records([asdict(each) for each in known], ("model", "hardware", "kind", "why"), output_format)
        return
    for spec in models:
        alike: dict[tuple[str, str], list[str]] = {}
        for each in sorted(
            (each for each in known if each.model == spec.slug), key=lambda each: KINDS.index(each.kind)
        ):
            alike.setdefault((each.kind, each.why), []).append(each.hardware)
        say(spec.slug)
        for (kind, why), gpus in alike.items():
            print_text(f"  {kind}: {', '.join(gpus)} ({why})")
    count = {kind: sum(each.kind == kind for each in known) for kind in KINDS}
    print_text(f"Models on GPUs: {', '.join(f'{kind} {number:,}' for kind, number in count.items())}.")


@app.command("show")
def show_model(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Slug, name or any alias.")],
    context: Annotated[
        int | None,
        typer.Option("--context", min=1, help="Tokens of one session's context.", show_default="32768"),
    ] = None,
    kv_dtype: Annotated[
        str | None, typer.Option("--kv-dtype", help="Format of the KV cache. Default: the model's own.")
    ] = None,
    tp: Annotated[int, typer.Option("--tp", min=1, help="Tensor parallelism of the attention.")] = 1,
    dp: Annotated[int, typer.Option("--dp", min=1, help="Attention data parallelism; GPUs = tp * dp.")] = 1,
    output_format: AnswerFormatOption = "table",
    catalogue: CatalogueOption = None,
) -> None:
    """Show one model's figures and the sums they come from. Bytes are those of one session."""
    from schemas.dtypes import KV_DTYPES
    from schemas.errors import UserError
    from transforms.model_config.sheet import explain_model, model_figures

    spec = _load(catalogue).find(model)
    served = spec.kv_dtype if kv_dtype is None else kv_dtype
    if served not in KV_DTYPES:
        raise UserError(f"--kv-dtype {served}: unknown; known are {', '.join(KV_DTYPES)}.")
    longest = spec.max_context_tokens or DEFAULT_CONTEXT_TOKENS
    tokens = min(DEFAULT_CONTEXT_TOKENS, longest) if context is None else context
    figures = model_figures(spec, tokens, served, tp, dp)
    if output_format != "table":
        from pipelines.commands.output import print_answer

        print_answer(output_format, figures, [figures])
        return
    for line in explain_model(spec, figures):
        print_text(line, columns=None)
    if spec.max_context_tokens is not None and tokens > spec.max_context_tokens:
        say(f"Note: {tokens:,} tokens are more than the model's longest context.")


@app.command("add")
def add_model(
    config_json: Annotated[
        Path,
        typer.Argument(metavar="CONFIG_JSON", help="A Hugging Face config.json, or the folder it is in."),
    ],
    name: Annotated[str, typer.Option("--name", help="What to call the model; its slug is made from it.")],
    weight_dtype: Annotated[
        str | None,
        typer.Option(
            "--weight-dtype",
            help="Format the weights are served in, if not the config's. On a mixture of experts a 4-bit format"
            " is the experts'.",
        ),
    ] = None,
    catalogue: CatalogueOption = None,
) -> None:
    """Add a model to your own catalogue file from its config.json.

    Parameters, stored bytes, KV cache and context are derived; what is not known is an error, never a guess.
    """
    from pipelines.reading.catalogues import load_models, user_models_file
    from pipelines.reading.model_configs import read_config_files, write_catalogue
    from transforms.model_config import read_model_config

    path = catalogue or user_models_file()
    config, quant_config = read_config_files(config_json)
    shipped = load_models()
    known = load_models(path) if path.exists() else shipped
    own = [entry for entry in known if entry.slug not in {shipped_entry.slug for shipped_entry in shipped}]
    spec = read_model_config(
        config,
        slug=slug_of(name, {entry.slug for entry in own if known.lookup(name) is not entry}),
        name=" ".join(name.split()),
        source=f"{config_json.name} given to `models add`",
        quant_config=quant_config,
        weight_dtype=weight_dtype,
    )
    _must_be_free(known, spec)
    write_catalogue(path, [*own, spec], "# Models added with `agent-pareto models add`.\n")
    say(
        f"Added {spec.slug} to {path}: {spec.parameters_total:,} parameters, {spec.weight_bytes / 1e9:,.2f} GB"
        f" of weights ({spec.weight_dtype}). See `agent-pareto models show {spec.slug} --catalogue {path}`."
    )
    if path == user_models_file():
        say("The next `agent-pareto build` has it.")
    for part in spec.not_counted:
        say(f"Note: not counted: {part}.")


@app.command("refresh", hidden=True)
def refresh_models(
    configs: Annotated[Path, typer.Option("--configs", metavar="FOLDER", help="Files OWNER--NAME_config.json.")],
    catalogue: Annotated[
        Path | None, typer.Option("--catalogue", metavar="FILE", help="Default: the shipped catalogue.")
    ] = None,
) -> None:
    """Derive the figures of a catalogue file anew from the configs that its entries name (for maintainers)."""
    from pipelines.reading.catalogues import SHIPPED
    from pipelines.reading.model_configs import HEADER, refreshed_models, write_catalogue

    path = catalogue or SHIPPED / "models.yaml"
    specs = refreshed_models(path, configs)
    write_catalogue(path, specs, HEADER)
    say(f"{path}: {len(specs)} models.")


def slug_of(name: str, taken: Collection[str] = ()) -> str:
    """A slug from a name: lower-case letters and digits, everything else one ``-``.

    Where that begins with a digit it gets ``m-`` before it; where nothing is left of the name, the slug is too
    long or it is ``taken`` by another name, a hash of the name tells it apart.
    """
    from hashlib import blake2b

    from schemas.errors import UserError
    from schemas.slugs import WORDS_READ_AS_VALUES, is_slug

    if not name.strip():
        raise UserError("--name is empty: what is the model called?")
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if not slug[:1].isalpha() or slug in WORDS_READ_AS_VALUES:
        slug = f"m-{slug}".strip("-")
    if slug == "m" or slug in taken or not is_slug(slug):
        slug = f"{slug[:60].rstrip('-')}-{blake2b(name.encode(), digest_size=5).hexdigest()}"
    return slug


def _load(catalogue: Path | None) -> "ModelCatalogue":
    from pipelines.reading.catalogues import load_models, own_models_file

    return load_models(catalogue or own_models_file())


def _must_be_free(known: "ModelCatalogue", spec: "ModelSpec") -> None:
    """Raises ``UserError`` where the slug or the name is taken."""
    from schemas.errors import UserError

    for taken in (spec.slug, spec.name):
        other = known.lookup(taken)
        if other is not None:
            raise UserError(
                f"--name {spec.name!r}: {taken!r} already names the model {other.slug!r} ({other.name});"
                " choose another name, or remove that entry from your catalogue file first."
            )


def _row(spec: "ModelSpec") -> tuple[str, ...]:
    from transforms.model_config.sheet import kv_bytes_per_token

    kappa = kv_bytes_per_token(spec, 2.0)
    return (
        spec.slug,
        f"{spec.parameters_total / 1e9:,.1f}",
        f"{spec.parameters_active / 1e9:,.1f}",
        f"{spec.weight_bytes / 1e9:,.1f}",
        spec.weight_dtype,
        "-" if kappa is None else f"{kappa:,.0f}",
        "-" if spec.max_context_tokens is None else f"{spec.max_context_tokens:,}",
    )
