"""`agent-pareto calibrate`: engines fitted to measured rows."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.commands.shared_options import AnswerFormatOption
from pipelines.terminal import print_text, say
from schemas.dtypes import KvDtype

if TYPE_CHECKING:
    from pipelines.reading.inputs import FoundFile
    from schemas.engines import CalibratedEngine
    from transforms.agentic.runs import RunDeployment
    from transforms.calibration import Calibration
    from transforms.calibration.deployments import Refused

FITTING = "Fitting engines"
_ERRORS = ("turn_latency", "ttft", "throughput")


def calibrate_command(
    tables: Annotated[
        list[Path] | None,
        typer.Option("--tables", help="Measured standard tables: a file or a folder of them; may be repeated."),
    ] = None,
    pilot: Annotated[
        list[Path] | None,
        typer.Option("--pilot", help="Measured agent runs of the deployments, a few sessions are enough; repeatable."),
    ] = None,
    kv_dtype: Annotated[
        KvDtype | None, typer.Option("--kv-dtype", help="KV format of the pilots; without: the checkpoint's.")
    ] = None,
    kv_tokens: Annotated[
        float | None,
        typer.Option("--kv-tokens", help="KV memory of the replica in tokens, as the server's log says it.", min=1.0),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write the engines there, as YAML.")] = None,
    hardware: Annotated[Path | None, typer.Option("--hardware", help="Your own hardware catalogue.")] = None,
    models: Annotated[Path | None, typer.Option("--models", help="Your own model catalogue.")] = None,
    output_format: AnswerFormatOption = "table",
) -> None:
    """Fit an engine to the measured rows of each deployment, and say which load tests would tell most.

    A deployment is hardware, model, precisions, engine and version, shape, speculation and settings; two rows of one
    are enough. Rows in lockstep and rows that contradict each other are refused by name. Exit 1 where no
    deployment can be fitted.
    """
    from pipelines.progress import progress, shown_progress
    from pipelines.reading.catalogues import load_hardware, load_models, own_models_file
    from pipelines.reading.engines import engines_as_text, load_priors
    from pipelines.reading.faults import faults_in_words
    from pipelines.reading.read_inputs import READING, read_inputs
    from schemas.errors import UserError
    from transforms.agentic.runs import run_deployments, unusable_runs, usable_pilots
    from transforms.calibration import calibrate, deployments
    from transforms.calibration.sharing import architectures

    if not tables and not pilot:
        raise UserError("Nothing to fit to: name measured tables with --tables, or agent runs with --pilot.")
    gpus, specs, priors = load_hardware(hardware), load_models(models or own_models_file()), load_priors()
    with shown_progress():
        files = _all_files(tables or (), pilot or ())
        progress().start(READING, len(files))
        inputs = read_inputs(files, gpus, specs, on_file=lambda shown: progress().advance(READING))
        found = list(deployments(inputs.serving_points, specs, gpus))
        progress().start(FITTING, len(found))
        calibrations = []
        for deployment in found:
            calibrations.append(calibrate(deployment, priors))
            progress().advance(FITTING)
    if inputs.faults:
        say(f"Not used:\n{faults_in_words(inputs)}", err=True)
    given = run_deployments(
        inputs.measured_agentic if pilot else inputs.measured_agentic.clear(),
        {spec.slug: spec for spec in specs}, gpus, kv_dtype=kv_dtype, kv_tokens=kv_tokens,
    )  # fmt: skip
    judged = [usable_pilots(each) for each in given]
    pilots = [each for each, _ in judged if each is not None]
    refused = [row for _, rows in judged for row in rows]
    if pilot:
        refused += unusable_runs(inputs.measured_agentic)
    if not found and not given:
        raise UserError(
            "No row of the tables is a measurement: engines are fitted to results of load generators, "
            "not to rows of AIConfigurator or a roofline."
        )
    alike = architectures(specs)
    engines = [_engine(each) for each in calibrations]
    piloted = [_piloted(each, calibrations, alike) for each in pilots]
    fitted = _later_first(engines, piloted, alike)
    if kv_tokens is not None:
        if len(fitted) != 1:
            raise UserError(
                f"--kv-tokens is the memory of one deployment, the tables have {len(fitted)} that can be fitted: "
                "name the tables of one."
            )
        fitted = [fitted[0].model_copy(update={"kv_tokens": kv_tokens})]
        engines = [engine and fitted[0] for engine in engines] if not piloted else engines
        piloted = fitted if piloted else []
    if out is not None and fitted:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(engines_as_text(fitted), encoding="utf-8")
    if output_format != "table":
        _print_records(calibrations, engines, piloted, refused, output_format)
    else:
        _print_tables(calibrations, engines)
        _print_pilots(pilots, piloted)
        _print_refused(refused)
        if out is not None and fitted:
            say(f"Wrote {out}: {len(fitted)} engine{'s' * (len(fitted) != 1)}.")
    if not fitted:
        raise typer.Exit(1)


def _all_files(tables: Sequence[Path], pilots: Sequence[Path]) -> "list[FoundFile]":
    """The files of both, those of the pilots as runs of agents; each once and by a name of its own."""
    from pipelines.reading.inputs import find_files, with_distinct_names

    runs = find_files(pilots, as_runs=True) if pilots else []
    named = {file.path.resolve() for file in runs}
    rows = find_files(tables) if tables else []
    return with_distinct_names([*(file for file in rows if file.path.resolve() not in named), *runs])


def _engine(calibration: "Calibration") -> "CalibratedEngine | None":
    from pipelines.reading.catalogues import load_scenarios
    from pipelines.reading.engines import load_priors
    from transforms.calibration.report import in_schema, turns_of

    if calibration.engine is None:
        return None
    prior = load_priors().prior(calibration.deployment.facts.traits)
    return in_schema(calibration, calibration.engine, prior, turns_of(load_scenarios()))


def _piloted(
    deployment: "RunDeployment", calibrations: "list[Calibration]", alike: Mapping[str, str]
) -> "CalibratedEngine":
    """The engine of pilots, beginning from that of the standard rows of the same deployment, where there are any."""
    from pipelines.reading.engines import load_priors
    from transforms.agentic.runs import fit_runs, is_same_deployment
    from transforms.calibration.report import piloted_in_schema

    standard = next(
        (
            each.engine
            for each in calibrations
            if each.engine is not None and is_same_deployment(each.deployment.identity, deployment.identity, alike)
        ),
        None,
    )
    prior = load_priors().prior(deployment.facts.traits)
    fitted = fit_runs(deployment.runs, deployment.facts, prior, None if standard is None else standard.fitted)
    contexts = [run.replay.input_tokens for run in deployment.runs]
    sessions = [run.replay.sessions for run in deployment.runs]
    names = [run.name for run in deployment.runs]
    return piloted_in_schema(
        deployment.identity, deployment.facts, fitted, standard, names,
        in_flight=(min(sessions), max(sessions)), contexts=(min(contexts), max(contexts)),
    )  # fmt: skip


def _later_first(
    engines: "list[CalibratedEngine | None]", piloted: "list[CalibratedEngine]", alike: Mapping[str, str]
) -> "list[CalibratedEngine]":
    """All engines; of one deployment that with pilots."""
    from transforms.agentic.runs import is_same_deployment

    def has_pilots(engine: "CalibratedEngine") -> bool:
        return any(is_same_deployment(engine.deployment, other.deployment, alike) for other in piloted)

    alone = [engine for engine in engines if engine is not None and not has_pilots(engine)]
    return [*piloted, *alone]


def _print_pilots(deployments: "list[RunDeployment]", engines: "list[CalibratedEngine]") -> None:
    for deployment, engine in zip(deployments, engines, strict=True):
        say(f"{deployment.name}: {len(engine.pilots)} pilot{'s' * (len(engine.pilots) != 1)}")
        for sentence in (*deployment.assumed, *engine.meaning):
            say(f"  {sentence}")
        say()


def _print_records(
    calibrations: "list[Calibration]",
    engines: "list[CalibratedEngine | None]",
    piloted: "list[CalibratedEngine]",
    refused_pilots: "list[Refused]",
    output_format: str,
) -> None:
    from dataclasses import asdict

    from pipelines.commands.output import print_answer

    of_rows = [
        _as_record(each.deployment.identity, engine, each.refused)
        for each, engine in zip(calibrations, engines, strict=True)
    ]
    of_pilots = [_as_record(each.deployment, each, ()) for each in piloted]
    deployments = [*of_rows, *of_pilots]
    content = {"deployments": deployments, "refused_pilots": [asdict(row) for row in refused_pilots]}
    print_answer(output_format, content, deployments)


def _as_record(
    identity: dict[str, Any], engine: "CalibratedEngine | None", refused_rows: "Sequence[Refused]"
) -> dict[str, Any]:
    from transforms.calibration.parameters import beyond_peak

    shown = ("hardware", "model", "weight_dtype", "kv_dtype", "backend", "backend_version", "serving_mode", "tp", "dp")
    refused = [
        {"source_file": row.source_file, "source_row": row.source_row, "reason": row.reason, "detail": row.detail}
        for row in refused_rows
    ]
    left_out: dict[str, float | None] = dict.fromkeys(_ERRORS)
    return {
        **{name: identity[name] for name in shown},
        "rows_used": 0 if engine is None else engine.rows_used,
        "refused": refused,
        "parameters": {} if engine is None else engine.parameters,
        "pilots": [] if engine is None else engine.pilots,
        "meaning": [] if engine is None else engine.meaning,
        "kv_tokens": None if engine is None else engine.kv_tokens,
        "leave_one_out": left_out if engine is None else engine.leave_one_out.model_dump(),
        "cannot_tell": [] if engine is None else engine.cannot_tell,
        "cannot_be": [] if engine is None else beyond_peak(engine.parameters),
        "next_tests": [] if engine is None else engine.next_tests,
    }


def _print_tables(calibrations: "list[Calibration]", engines: "list[CalibratedEngine | None]") -> None:
    from transforms.calibration.parameters import beyond_peak

    for calibration, engine in zip(calibrations, engines, strict=True):
        say(_title(calibration))
        if engine is None:
            kept = calibration.used.height
            say(f"  not fitted: {kept} usable row{'s' * (kept != 1)}, two are needed")
        else:
            errors = engine.leave_one_out
            say(f"  {engine.rows_used} rows; each predicted from the others: {_percents(errors.model_dump())}")
            say("\n".join(f"  {sentence}" for sentence in engine.meaning))
            for sentence in engine.cannot_tell:
                say(f"  cannot tell: {sentence}")
            for sentence in beyond_peak(engine.parameters):
                print_text(f"  cannot be: {sentence}")
            say("  load tests that would tell most of agents' turns:")
            say("\n".join(f"    {command}" for command in engine.next_tests))
        _print_refused(calibration.refused)
        say()


def _print_refused(rows: "Sequence[Refused]") -> None:
    for row in rows:
        print_text(f"  refused: {row.source_file} row {row.source_row}: {row.reason}: {row.detail}")


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
