"""`agent-pareto`: the command line. Each command lives in a module of ``pipelines/commands``."""

import os
import signal
import sys
from typing import Annotated, Final, TextIO

import typer

from pipelines.commands import hardware, scenarios
from pipelines.commands.build import TakesBuildOptions, build_command
from pipelines.commands.calibrate import calibrate_command
from pipelines.commands.check import check_command
from pipelines.commands.evaluate import evaluate_command
from pipelines.commands.explorer import explorer_command
from pipelines.commands.frontier import frontier_command
from pipelines.commands.models import app as models_app
from pipelines.commands.plan import TakesPlanLimits, plan_command
from pipelines.commands.query import query_command
from pipelines.commands.releases import releases_app
from pipelines.commands.schedule import schedule_command
from pipelines.commands.what_if import TakesScenarioChanges, what_if_command
from pipelines.terminal import say
from schemas.errors import UserError

app = typer.Typer(
    name="agent-pareto",
    help="What GPUs deliver to AI agents: serving tables in, Pareto frontiers of agent workloads out.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        say(f"agent-pareto {version('agent-pareto')}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    """What GPUs deliver to AI agents: serving tables in, Pareto frontiers of agent workloads out.

    Exit codes of every command: 0 an answer; 1 no answer, or input refused; 2 wrong use.
    """


app.command("build", cls=TakesBuildOptions)(build_command)
app.command("check")(check_command)
app.command("query")(query_command)
app.command("calibrate")(calibrate_command)
app.command("evaluate")(evaluate_command)
app.command("frontier")(frontier_command)
app.command("plan", cls=TakesPlanLimits)(plan_command)
app.command("explorer")(explorer_command)
app.command("what-if", cls=TakesScenarioChanges)(what_if_command)
app.command("schedule", cls=TakesBuildOptions)(schedule_command)
app.add_typer(scenarios.app, name="scenarios")
app.add_typer(hardware.app, name="hardware")
app.add_typer(models_app, name="models")
app.add_typer(releases_app, name="releases")


#: Exit code after Ctrl-C, as shells have it.
INTERRUPTED: Final = 128 + signal.SIGINT


class _TerminatedError(BaseException):
    """A termination signal has come; what is open is closed on the way out, as after Ctrl-C."""


def _terminate(number: int, frame: object) -> None:
    raise _TerminatedError


def _file_of_output() -> tuple[int, int] | None:
    """What standard output is; None where it is no file of the system's."""
    try:
        about = os.fstat(sys.stdout.fileno())
    except (OSError, ValueError):
        return None
    return about.st_dev, about.st_ino


def _reader_is_gone(output: TextIO) -> bool:
    """Writes what is left, and says whether nobody reads it; then nothing more is tried when Python ends."""
    try:
        output.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())
        return True
    except ValueError:  # closed
        pass
    return False


def main() -> None:
    """Runs a command; what a user can mend is said in a sentence, with exit code 1."""
    signal.signal(signal.SIGTERM, _terminate)
    output, file = sys.stdout, _file_of_output()
    try:
        app()
    except SystemExit as ended:
        if ended.code == INTERRUPTED:
            say("Interrupted. What was published stays; a lake's lock is given back.", err=True)
        # a reader that has enough, `head` say, is no error: what writes then puts another stream in its place
        code = 0 if sys.stdout is not output or _file_of_output() != file else ended.code
        sys.exit(0 if _reader_is_gone(output) else code)
    except BrokenPipeError:
        _reader_is_gone(output)
        sys.exit(0)
    except _TerminatedError:
        say("Ended by a termination signal. What was published stays; a lake's lock is given back.", err=True)
        sys.exit(128 + signal.SIGTERM)
    except UserError as error:
        say(f"Error: {error}", err=True)
        sys.exit(1)
    except Exception as error:
        if "botocore" not in sys.modules:  # no lake on an object store was opened
            raise
        from pipelines.lake.places import is_refusal, refusal

        if not is_refusal(error):
            raise
        say(f"Error: the object store of the lake failed: {refusal(error)}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
