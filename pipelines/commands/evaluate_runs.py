"""`agent-pareto evaluate --runs`: measured agent runs beside their prediction."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.terminal import say

if TYPE_CHECKING:
    from schemas.catalogue import HardwareCatalogue, ModelCatalogue
    from schemas.engines import CalibratedEngine
    from transforms.agentic.runs import AgentRun, RunDeployment

_FIGURES = {"output_tokens_per_s_per_gpu": "throughput", "turn_latency_s": "latency"}


def evaluate_runs(
    runs: list[Path],
    engines: Path | None,
    lake: Path | None,
    kv_dtype: str | None,
    host_bytes: float,
    hardware: Path | None,
    models: Path | None,
    output_format: str,
    svg: Path | None,
) -> None:
    """Reads the runs, predicts each, prints both and draws them where ``svg`` is given.

    The engines are those of a file or of a lake's release. Raises ``UserError`` where there is no run.
    """
    from pipelines.reading.faults import faults_in_words
    from pipelines.reading.inputs import find_files
    from pipelines.reading.read_inputs import read_inputs
    from schemas.errors import UserError
    from transforms.agentic.runs import run_deployments, unusable_runs
    from transforms.calibration.sharing import architectures

    known, gpus, specs = _known(engines, lake, hardware, models)
    inputs = read_inputs(find_files(tuple(runs), as_runs=True), gpus, specs)
    if inputs.measured_agentic.is_empty():
        raise UserError(f"None of the files holds a measured agent run that can be used.\n{faults_in_words(inputs)}")
    if inputs.faults:
        say(f"Not used:\n{faults_in_words(inputs)}", err=True)
    for row in unusable_runs(inputs.measured_agentic):
        say(f"Not used: {row.source_file} row {row.source_row}: {row.detail}", err=True)
    found = run_deployments(
        inputs.measured_agentic, {spec.slug: spec for spec in specs}, gpus, kv_dtype=kv_dtype,
        host_bytes=host_bytes, engines=known,
    )  # fmt: skip
    if not found:
        raise UserError("None of the measured agent runs says enough to be replayed.")
    records = [record for deployment in found for record in _records(deployment, known, architectures(specs))]
    if svg is not None:
        from pipelines.answering.figures import write_figure
        from pipelines.answering.run_figures import figure_of_runs

        write_figure(figure_of_runs(records), "svg", svg)
    errors = {where: _errors(records, beyond=where == "beyond") for where in ("before", "beyond")}
    if output_format != "table":
        from pipelines.commands.output import print_answer

        print_answer(output_format, {"runs": records, "errors": errors}, records)
        return
    _print_tables(found, records, errors)


def _known(
    engines: Path | None, lake: Path | None, hardware: Path | None, models: Path | None
) -> "tuple[Sequence[CalibratedEngine], HardwareCatalogue, ModelCatalogue]":
    """Engines and catalogues: those of the lake's release, where there is a lake and no catalogue of one's own."""
    from pipelines.answering.release_contents import open_contents
    from pipelines.reading.catalogues import load_hardware, load_models, own_models_file
    from pipelines.reading.engines import load_engines

    if lake is None:
        known = () if engines is None else load_engines(engines).engines
        return known, load_hardware(hardware), load_models(models or own_models_file())
    contents = open_contents(lake)
    if not contents.engines.engines:
        say(f"{lake} holds no engine: runs are held against what is expected of such engines.", err=True)
    return (
        contents.engines.engines,
        contents.hardware if hardware is None else load_hardware(hardware),
        contents.models if models is None else load_models(models),
    )


def _records(
    deployment: "RunDeployment", engines: "Sequence[CalibratedEngine]", alike: Mapping[str, str]
) -> list[dict[str, Any]]:
    from dataclasses import asdict

    from pipelines.reading.engines import load_priors
    from transforms.agentic.predicted_runs import predict_run
    from transforms.agentic.runs import engine_of_run, fit_runs
    from transforms.calibration.report import engine_of

    engine = engine_of_run(deployment, engines, alike)
    prior = load_priors().prior(deployment.facts.traits)
    fitted = fit_runs((), deployment.facts, prior) if engine is None else engine_of(engine, deployment.facts).fitted
    pilots = set() if engine is None else set(engine.pilots)
    records = []
    for run in deployment.runs:
        row = run.row
        records.append({
            "source_file": row["source_file"], "source_row": row["source_row"], "hardware": row["hardware"],
            "model": row["model"], "sessions": row["sessions"], "tp": row["tp"], "offload_mode": row["offload_mode"],
            "memory_full_at": run.wall,
            "beyond_wall": run.beyond_wall, "is_pilot": run.name in pilots, "is_whole": deployment.is_whole(run),
            "deployment": deployment.name, "calibrated": engine is not None,
            "measured": {
                "output_tokens_per_s_per_gpu": row["output_tokens_per_s_per_gpu"],
                "turn_latency_s": row["turn_latency_ms"] / 1e3,
                "cache_hit_rate": run.hit_rate,
            },
            "predicted": asdict(predict_run(run, deployment.facts, fitted, piloted=bool(pilots))),
        })  # fmt: skip
    return records


def _errors(records: list[dict[str, Any]], *, beyond: bool) -> dict[str, Any]:
    """Mean absolute relative errors of the whole runs that are no pilots; None where there is none."""
    counted = [each for each in records if each["beyond_wall"] == beyond and each["is_whole"] and not each["is_pilot"]]
    errors: dict[str, Any] = {"runs": len(counted)}
    for figure in _FIGURES:
        off = [abs(each["predicted"][figure] / each["measured"][figure] - 1.0) for each in counted]
        errors[figure] = sum(off) / len(off) if off else None
    hits = [
        abs(each["predicted"]["cache_hit_rate"] - each["measured"]["cache_hit_rate"])
        for each in counted
        if each["measured"]["cache_hit_rate"] is not None
    ]
    errors["cache_hit_rate"] = sum(hits) / len(hits) if hits else None
    return errors


def _print_tables(
    deployments: "list[RunDeployment]", records: list[dict[str, Any]], errors: dict[str, dict[str, Any]]
) -> None:
    from pipelines.terminal import print_table

    for deployment in deployments:
        own = [each for each in records if each["deployment"] == deployment.name]
        how = "calibrated" if own[0]["calibrated"] else "expected of such engines, no row or pilot of its own"
        say(f"{deployment.name}: {how}; memory is full at {_wall(deployment.runs):.0f} turns in service")
        for sentence in deployment.assumed:
            say(f"  assumed: {sentence}")
        print_table(
            ("sessions", "", "tokens/s/GPU\nmeasured", "\npredicted", "turn, s\nmeasured", "\npredicted",
             "80 % within", "hits\nmeasured", "\npredicted"),
            [_cells(each) for each in own],
        )  # fmt: skip
    for where, words in (("before", "before memory is full"), ("beyond", "beyond")):
        told = errors[where]
        if told["runs"]:
            say(
                f"{told['runs']} whole run{'s' * (told['runs'] != 1)} {words}: throughput "
                f"{told['output_tokens_per_s_per_gpu']:.0%} off on average, turn latency {told['turn_latency_s']:.0%}"
            )


def _wall(runs: "Sequence[AgentRun]") -> float:
    return sum(run.wall for run in runs) / len(runs)


def _cells(record: dict[str, Any]) -> tuple[str, ...]:
    measured, predicted = record["measured"], record["predicted"]
    mark = "pilot" if record["is_pilot"] else "" if record["is_whole"] else "not whole"
    hits = measured["cache_hit_rate"]
    return (
        f"{record['sessions']:.0f}", mark, f"{measured['output_tokens_per_s_per_gpu']:.1f}",
        f"{predicted['output_tokens_per_s_per_gpu']:.1f}", f"{measured['turn_latency_s']:.1f}",
        f"{predicted['turn_latency_s']:.1f}",
        f"{predicted['turn_latency_low_s']:.1f} - {predicted['turn_latency_high_s']:.1f}",
        "-" if hits is None else f"{hits:.2f}", f"{predicted['cache_hit_rate']:.2f}",
    )  # fmt: skip
