"""A run over the wanted questions: asks what is not answered yet, and says how far it is."""

import time
from collections import Counter
from collections.abc import Callable

from pipelines.live.coverage.answers import Answers
from pipelines.live.coverage.wanted import Wanted
from pipelines.live.program import Program
from pipelines.live.questions import Question
from pipelines.live.resident import ResidentWorker

#: Seconds of a question before a run has measured its own, on one core; loading databases counted.
USUAL_SECONDS = {"agg": 1.0, "disagg": 4.0}
EVERY = 50


def ask_all(
    wanted: Wanted, program: Program, answers: Answers, seconds: float | None, say: Callable[[str], None]
) -> bool:
    """Asks stage by stage until all is answered (True) or the time is over (False)."""
    begun = time.monotonic()
    pace = Counter[str]()
    with ResidentWorker(program) as worker:
        for title, questions in wanted.stages(answers):
            open_questions = [each for each in dict.fromkeys(questions) if not answers.is_asked(each)]
            say(f"{title}: {len(open_questions):,} of {len(questions):,} to ask, {_hours(open_questions, pace)}")
            for number, question in enumerate(open_questions, 1):
                if seconds is not None and time.monotonic() - begun > seconds:
                    return False
                if answers.is_asked(question):  # by another stage's wording of it, or a run beside this one
                    continue
                before = time.monotonic()
                answers.ask(question, worker)
                pace[question.serving_mode] += 1
                pace[f"{question.serving_mode} s"] += round(1e3 * (time.monotonic() - before))
                if number % EVERY == 0:
                    rest = open_questions[number:]
                    say(f"  {number:,} of {len(open_questions):,}, {_hours(rest, pace)} ({question.name})")
    return True


def _hours(questions: list[Question], pace: Counter[str]) -> str:
    """How long the questions take, at the pace so far."""

    def seconds(mode: str) -> float:
        return pace[f"{mode} s"] / 1e3 / pace[mode] if pace[mode] >= EVERY else USUAL_SECONDS[mode]

    return f"{sum(seconds(each.serving_mode) for each in questions) / 3600:.2f} h"
