"""`agent-pareto evaluate`: how far mapped points are from reference points on the agents' own turns."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.commands.shared_options import AnswerFormatOption
from pipelines.terminal import say
from schemas.dtypes import KvDtype

if TYPE_CHECKING:
    import polars as pl

    from schemas.catalogue import HardwareCatalogue, ModelCatalogue
    from transforms.evaluation import Pairing

COMPARING = "Carrying points to reference turns"
_TITLES = {
    "hardware": "By hardware", "model": "By model", "backend": "By engine", "serving_mode": "By serving mode",
    "source": "By source", "transfer_method": "By method", "batch_range": "By batch of a rank", "turn": "By turn",
}  # fmt: skip
_ERRORS = ("mean", "median", "p90", "signed")
_FIGURES = {"turn_latency": "latency", "ttft": "TTFT", "tpot": "TPOT", "throughput": "throughput"}


def evaluate_command(
    tables: Annotated[
        list[Path] | None,
        typer.Option("--tables", help="Standard tables: a file or a folder of them; may be repeated."),
    ] = None,
    reference: Annotated[
        list[Path] | None,
        typer.Option("--reference", help="Tables of the same configurations at agent turns; may be repeated."),
    ] = None,
    runs: Annotated[
        list[Path] | None,
        typer.Option("--runs", help="Measured agent runs, in place of --tables and --reference; may be repeated."),
    ] = None,
    engines: Annotated[
        Path | None, typer.Option("--engines", help="Engines that `agent-pareto calibrate` wrote, for --runs.")
    ] = None,
    lake: Annotated[
        Path | None, typer.Option("--lake", help="Predict --runs by the engines and catalogues of this lake's release.")
    ] = None,
    kv_dtype: Annotated[
        KvDtype | None, typer.Option("--kv-dtype", help="KV format of --runs; without: the checkpoint's.")
    ] = None,
    host_memory_gib: Annotated[
        float, typer.Option("--host-memory-gib", help="Memory of the host for KV, of --runs that offload.", min=0.0)
    ] = 0.0,
    svg: Annotated[
        Path | None, typer.Option("--svg", help="Write a picture of --runs and their prediction, over sessions.")
    ] = None,
    hardware: Annotated[Path | None, typer.Option("--hardware", help="Your own hardware catalogue.")] = None,
    models: Annotated[Path | None, typer.Option("--models", help="Your own model catalogue.")] = None,
    output_format: AnswerFormatOption = "table",
    save: Annotated[
        Path | None,
        typer.Option("--save", help="Also write the errors as Parquet, for `agent-pareto build --evaluation FILE`."),
    ] = None,
) -> None:
    """Compare what is predicted with what was measured: mapped points with reference points, or agent runs.

    With --tables and --reference: errors of latency, TTFT, TPOT and throughput. A reference row of L prompt tokens,
    P of them cached, and O output tokens is one agent turn. Rows whose workload the standard tables hold for the same
    configuration prove nothing and do not count.

    With --runs: each measured agent run beside its prediction, before memory is full and beyond.
    """
    if runs:
        if tables or reference or save:
            raise typer.BadParameter("--runs stands alone: it takes no --tables, --reference or --save")
        if engines is not None and lake is not None:
            raise typer.BadParameter("--engines and --lake both say which engines predict: give one")
        from pipelines.commands.evaluate_runs import evaluate_runs

        evaluate_runs(runs, engines, lake, kv_dtype, host_memory_gib * 2.0**30, hardware, models, output_format, svg)
        return
    if not tables or not reference:
        raise typer.BadParameter("give --tables and --reference, or --runs")
    if any(each is not None for each in (engines, lake, kv_dtype, svg)) or host_memory_gib:
        raise typer.BadParameter("--engines, --lake, --kv-dtype, --host-memory-gib and --svg belong to --runs")
    from pipelines.progress import progress, shown_progress
    from pipelines.reading.catalogues import load_hardware, load_models, own_models_file
    from schemas.errors import UserError
    from schemas.frames import conform
    from transforms.evaluation import compare_points, count_turns, summarise_errors

    gpus, specs = load_hardware(hardware), load_models(models or own_models_file())
    with shown_progress():
        standard = _read(tables, "--tables", gpus, specs)
        wanted = _read(reference, "--reference", gpus, specs)
        progress().start(COMPARING, count_turns(wanted))
        comparison = compare_points(standard, wanted, gpus, specs, on_turn=lambda: progress().advance(COMPARING))
    if comparison.pairs.is_empty():
        raise UserError(
            f"None of the {comparison.reference_points:,} reference points has a partner among the standard tables: "
            "the same hardware, model, precision, engine, parallelism, workers and batch at another workload."
        )
    errors = conform(summarise_errors(comparison.pairs), "evaluation")
    if save is not None:
        save.parent.mkdir(parents=True, exist_ok=True)
        errors.write_parquet(save)
    if output_format != "table":
        _print_errors(comparison, errors, output_format)
    else:
        _print_tables(comparison, errors)


def _read(paths: list[Path], option: str, gpus: "HardwareCatalogue", specs: "ModelCatalogue") -> "pl.DataFrame":
    """The serving points of the files; what cannot be used is said on standard error."""
    from pipelines.progress import progress
    from pipelines.reading.faults import faults_in_words
    from pipelines.reading.inputs import find_files
    from pipelines.reading.read_inputs import read_inputs
    from schemas.errors import UserError

    stage = f"Reading tables of {option}"
    files = find_files(tuple(paths))
    progress().start(stage, len(files))
    inputs = read_inputs(files, gpus, specs, on_file=lambda shown: progress().advance(stage))
    if inputs.serving_points.is_empty():
        raise UserError(f"No row of {option} can be used.\n{faults_in_words(inputs)}")
    if inputs.faults:
        say(f"Not used of {option}:\n{faults_in_words(inputs)}", err=True)
    return inputs.serving_points


def _print_errors(comparison: "Pairing", errors: "pl.DataFrame", output_format: str) -> None:
    from pipelines.commands.output import print_answer

    account = {
        "reference_points": comparison.reference_points,
        "compared_points": comparison.pairs.height,
        "without_partner": comparison.without_partner,
        "same_workload": comparison.same_workload,
    }
    print_answer(output_format, account | {"errors": errors.to_dicts()}, errors.to_dicts())


def _print_tables(comparison: "Pairing", errors: "pl.DataFrame") -> None:
    import polars as pl

    from pipelines.terminal import print_table

    rows = errors.filter(pl.col("grouped_by") == "all").sort("figure", descending=True).to_dicts()
    say("Over all points, error in %")
    print_table(
        ("figure", "points", *_ERRORS),
        ((_FIGURES[row["figure"]], f"{row['points']:,}", *_percents(row)) for row in rows),
    )
    for grouping, title in _TITLES.items():
        of_grouping = errors.filter(pl.col("grouped_by") == grouping)
        if of_grouping["group"].n_unique() < 2:
            continue
        say(f"{title}: mean, p90 and signed error in %")
        columns = tuple(f"{name}\n{part}" for name in _FIGURES.values() for part in ("mean", "p90", "signed"))
        print_table(
            (grouping.replace("_", " "), "points", *columns),
            (_group_row(group, of_grouping) for group in _in_order(of_grouping["group"].unique().to_list())),
        )
    say(
        f"{comparison.pairs.height:,} of {comparison.reference_points:,} reference points have a partner in the "
        f"standard tables; {comparison.without_partner:,} have none."
    )
    if comparison.same_workload:
        say(f"{comparison.same_workload:,} more stand at a workload of the standard tables and do not count.")


def _in_order(groups: list[str]) -> list[str]:
    """By the numbers that the names begin with, if they do: ranges of batches; else by name."""
    return sorted(
        groups, key=lambda name: (int(number) if (number := name.split("-")[0].split()[0]).isdigit() else 0, name)
    )


def _group_row(group: str, errors: "pl.DataFrame") -> tuple[str, ...]:
    rows = {row["figure"]: row for row in errors.filter(errors["group"] == group).to_dicts()}
    cells: list[str] = []
    for figure in _FIGURES:
        row = rows.get(figure)
        cells += ["-"] * 3 if row is None else [_percents(row)[part] for part in (0, 2, 3)]
    return (group, f"{max(row['points'] for row in rows.values()):,}", *cells)


def _percents(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(f"{100 * row[f'{name}_error_fraction']:{'+' if name == 'signed' else ''}.2f}" for name in _ERRORS)
