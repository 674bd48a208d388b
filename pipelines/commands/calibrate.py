"""`agent-pareto calibrate`: engines fitted to measured rows."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from schemas.engines import CalibratedEngine
    from transforms.calibration import Calibration

FITTING = "Fitting engines"
_ERRORS = ("turn_latency", "ttft", "throughput")


def calibrate_command(
    tables: Annotated[
        list[Path] | None,
        typer.Option("--tables", help="Measured standard tables: a file or a folder of them; may be repeated."),
    ] = None,
    kv_tokens: Annotated[
        float | None,
        typer.Option("--kv-tokens", help="KV memory of the replica in tokens, as the server's log says it.", min=1.0),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write the engines there, as YAML.")] = None,
    hardware: Annotated[Path | None, typer.Option("--hardware", help="Your own hardware catalogue.")] = None,
    models: Annotated[Path | None, typer.Option("--models", help="Your own model catalogue.")] = None,
    output_format: Annotated[Literal["table", "json"], typer.Option("--format", help="json: for machines.")] = "table",
) -> None:
    """Fit an engine to the measured rows of each deployment, and say which load tests would tell most.

    A deployment is hardware, model, precisions, engine and version, shape, speculation and settings; two rows of one
    are enough. Rows in lockstep and rows that contradict each other are refused by name. Exit 1 where no
    deployment can be fitted.
    """
    from pipelines.progress import progress, shown_progress
    from pipelines.reading.catalogues import load_hardware, load_models
    from pipelines.reading.engines import engines_as_text, load_priors
    from pipelines.reading.faults import faults_in_words
    from pipelines.reading.inputs import find_files
    from pipelines.reading.read_inputs import READING, read_inputs
    from schemas.errors import UserError
    from transforms.calibration import calibrate, deployments

    if not tables:
        raise UserError("Nothing to fit to: name measured tables with --tables.")
    gpus, specs, priors = load_hardware(hardware), load_models(models), load_priors()
    with shown_progress():
        files = find_files(tuple(tables))
        progress().start(READING, len(files))
        inputs = read_inputs(files, gpus, specs, on_file=lambda shown: progress().advance(READING))
        found = list(deployments(inputs.serving_points, specs, gpus))
        progress().start(FITTING, len(found))
        calibrations = []
        for deployment in found:
            calibrations.append(calibrate(deployment, priors))
            progress().advance(FITTING)
    if inputs.faults:
        typer.echo(f"Not used:\n{faults_in_words(inputs)}", err=True)
    if not found:
        raise UserError(
            "No row of the tables is a measurement: engines are fitted to results of load generators, "
            "not to rows of AIConfigurator or a roofline."
        )
    engines = [_engine(each) for each in calibrations]
    fitted = [engine for engine in engines if engine is not None]
    if kv_tokens is not None:
        if len(fitted) != 1:
            raise UserError(
                f"--kv-tokens is the memory of one deployment, the tables have {len(fitted)} that can be fitted: "
                "name the tables of one."
            )
        engines = [engine and engine.model_copy(update={"kv_tokens": kv_tokens}) for engine in engines]
        fitted = [engine for engine in engines if engine is not None]
    if out is not None and fitted:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(engines_as_text(fitted), encoding="utf-8")
    if output_format == "json":
        _print_json(calibrations, engines)
    else:
        _print_tables(calibrations, engines, out if fitted else None)
    if not fitted:
        raise typer.Exit(1)


def _engine(calibration: "Calibration") -> "CalibratedEngine | None":
    from pipelines.reading.catalogues import load_scenarios
    from pipelines.reading.engines import load_priors
    from transforms.calibration.report import in_schema, turns_of

    if calibration.engine is None:
        return None
    prior = load_priors().prior(calibration.deployment.facts.traits)
    return in_schema(calibration, calibration.engine, prior, turns_of(load_scenarios()))


def _print_json(calibrations: "list[Calibration]", engines: "list[CalibratedEngine | None]") -> None:
    from pipelines.commands.output import print_json

    print_json({"deployments": [_as_record(*pair) for pair in zip(calibrations, engines, strict=True)]})


def _as_record(calibration: "Calibration", engine: "CalibratedEngine | None") -> dict[str, Any]:
    shown = ("hardware", "model", "weight_dtype", "kv_dtype", "backend", "backend_version", "serving_mode", "tp", "dp")
    identity = calibration.deployment.identity
    refused = [
        {"source_file": row.source_file, "source_row": row.source_row, "reason": row.reason, "detail": row.detail}
        for row in calibration.refused
    ]
    left_out: dict[str, float | None] = dict.fromkeys(_ERRORS)
    return {
        **{name: identity[name] for name in shown},
        "rows_used": 0 if engine is None else engine.rows_used,
        "refused": refused,
        "parameters": {} if engine is None else engine.parameters,
        "meaning": [] if engine is None else engine.meaning,
        "kv_tokens": None if engine is None else engine.kv_tokens,
        "leave_one_out": left_out if engine is None else engine.leave_one_out.model_dump(),
        "cannot_tell": [] if engine is None else engine.cannot_tell,
        "next_tests": [] if engine is None else engine.next_tests,
    }


def _print_tables(
    calibrations: "list[Calibration]", engines: "list[CalibratedEngine | None]", out: Path | None
) -> None:
    from pipelines.terminal import print_table

    for calibration, engine in zip(calibrations, engines, strict=True):
        print(_title(calibration))
        if engine is None:
            kept = calibration.used.height
            print(f"  not fitted: {kept} usable row{'s' * (kept != 1)}, two are needed")
        else:
            errors = engine.leave_one_out
            print(f"  {engine.rows_used} rows; each predicted from the others: {_percents(errors.model_dump())}")
            print("\n".join(f"  {sentence}" for sentence in engine.meaning))
            for sentence in engine.cannot_tell:
                print(f"  cannot tell: {sentence}")
            print("  load tests that would tell most of agents' turns:")
            print("\n".join(f"    {command}" for command in engine.next_tests))
        if calibration.refused:
            print_table(
                ("file", "row", "refused"),
                [(row.source_file, f"{row.source_row}", f"{row.reason}: {row.detail}") for row in calibration.refused],
            )
        print()
    if out is not None:
        print(f"Wrote {out}: {sum(engine is not None for engine in engines)} engines.")


def _title(calibration: "Calibration") -> str:
    identity = calibration.deployment.identity
    shape = f"TP{identity['tp']} DP{identity['dp']}" if identity["serving_mode"] == "agg" else "disaggregated"
    drafts = "" if identity["draft_tokens"] == 0 else ", speculates"
    version = f" {identity['backend_version']}" if identity["backend_version"] else ""
    return (
        f"{identity['model']} ({identity['weight_dtype']}, KV {identity['kv_dtype']}) on {identity['hardware']}, "
        f"{identity['backend']}{version}, {shape}{drafts}"
    )


def _percents(errors: dict[str, float | None]) -> str:
    names = {"turn_latency": "latency", "ttft": "TTFT", "throughput": "throughput"}
    told = [f"{names[name]} {error:.0%}" for name, error in errors.items() if error is not None]
    return ", ".join(told) + " off on average" if told else "no other row"
