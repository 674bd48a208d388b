"""The tables that the options ask AIConfigurator for."""

from collections.abc import Sequence

from pipelines.live.answers import answer_all, default_cache
from pipelines.live.program import find_program
from pipelines.live.questions import questions
from pipelines.progress import progress
from pipelines.reading.inputs import FoundFile
from schemas.catalogue import HardwareCatalogue, ModelCatalogue
from schemas.options import LiveOptions
from schemas.scenarios import Scenario

ASKING = "Asking AIConfigurator"


def ask_aiconfigurator(
    options: LiveOptions, scenarios: Sequence[Scenario], hardware: HardwareCatalogue, models: ModelCatalogue
) -> list[FoundFile]:
    """A table a question; one that has no answer is a refused file with the reason.

    Raises ``UserError`` where AIConfigurator is not there or knows nothing of a name.
    """
    program = find_program(options.aiconfigurator)
    asked = questions(options, program, scenarios, hardware, models)
    progress().start(ASKING, len(asked))
    cache = options.aiconfigurator_cache or default_cache()
    return answer_all(asked, program, cache.expanduser(), lambda: progress().advance(ASKING))
