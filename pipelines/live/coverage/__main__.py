"""`python -m pipelines.live.coverage`: has AIConfigurator asked about everything, and ships the answers."""

from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from pipelines.live.coverage.answers import Answers
from pipelines.live.coverage.asking import ask_all
from pipelines.live.coverage.shipping import reaching_rows, write_shipped, write_tables
from pipelines.live.coverage.wanted import Wanted
from pipelines.live.program import Program, find_program
from pipelines.reading.catalogues import COVERAGE_ACCOUNT, COVERAGE_TABLES, load_models
from pipelines.terminal import say
from pipelines.user_cache import user_cache

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)
Environment = Annotated[
    Path | None,
    typer.Option("--aiconfigurator", help="Environment that has AIConfigurator.", envvar="AGENT_PARETO_AICONFIGURATOR"),
]
Folder = Annotated[
    Path | None, typer.Option("--answers", help="Folder that keeps the answers. Without: in the user's cache.")
]


@app.command()
def ask(
    aiconfigurator: Environment = None,
    answers: Folder = None,
    minutes: Annotated[float | None, typer.Option(help="Stop after so long; the next run goes on from there.")] = None,
) -> None:
    """Ask what is not answered yet, the most valuable first. One process; more may run beside it on other cores."""
    program = find_program(aiconfigurator)
    kept, wanted = _opened(program, answers)
    seconds = None if minutes is None else 60 * minutes
    done = ask_all(wanted, program, kept, seconds, say)
    say("All is answered." if done else "The time is over; run it again to go on.")


@app.command()
def tables(
    out: Annotated[Path, typer.Option(help="New folder.")], aiconfigurator: Environment = None, answers: Folder = None
) -> None:
    """Lay the answers out as tables, for `agent-pareto build --tables`."""
    kept, wanted = _opened(find_program(aiconfigurator), answers)
    say(f"{write_tables(wanted, kept, out):,} tables in {out}")


@app.command()
def ship(
    lake: Annotated[Path, typer.Option(help="Lake that was built from the tables and those shipped before.")],
    aiconfigurator: Environment = None,
    answers: Folder = None,
) -> None:
    """Write the curves that reach a frontier of the lake into data/, and the account of all questions."""
    kept, wanted = _opened(find_program(aiconfigurator), answers)
    account = write_shipped(wanted, kept, reaching_rows(lake), COVERAGE_TABLES)
    account.write_csv(COVERAGE_ACCOUNT)
    say(str(account.group_by("state").agg(pl.len(), pl.sum("rows", "rows_shipped")).sort("state")))


def _opened(program: Program, folder: Path | None) -> tuple[Answers, Wanted]:
    return Answers(folder or user_cache() / "coverage", program.version), Wanted.of(program, load_models(None))


if __name__ == "__main__":
    app()
