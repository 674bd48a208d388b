"""`python -m pipelines.live.coverage`: has AIConfigurator asked about everything, and ships the answers."""

from pathlib import Path
from typing import Annotated

import typer

from pipelines.live.coverage.answers import Answers
from pipelines.live.coverage.asking import ask_all
from pipelines.live.coverage.wanted import Wanted
from pipelines.live.program import find_program
from pipelines.reading.catalogues import load_models
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
    kept = Answers(answers or user_cache() / "coverage", program.version)
    wanted = Wanted.of(program, load_models(None))
    done = ask_all(wanted, program, kept, None if minutes is None else 60 * minutes, lambda line: print(line, flush=True))
    print("All is answered." if done else "The time is over; run it again to go on.")


@app.command()
def ship() -> None:
    """Not yet."""


if __name__ == "__main__":
    app()
