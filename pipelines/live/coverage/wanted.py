"""What is asked, the most valuable first: a table for each GPU and model, then other engines, workloads and modes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pipelines.live.coverage.answers import Answers
from pipelines.live.program import Program
from pipelines.live.questions import Question, ServingMode
from schemas.catalogue import ModelCatalogue

#: Most used first; a system that a newer AIConfigurator adds comes after them.
SYSTEMS: Final = (
    "h200_sxm", "b200_sxm", "h100_sxm", "gb200", "b300_sxm", "gb300", "a100_sxm", "l40s", "rtx_pro_6000_server", "b60",
)  # fmt: skip
#: The engine that AIConfigurator has most kernels of first.
ENGINES: Final = ("trtllm", "vllm", "sglang")
#: The precision that a system's users run first, by what the names of checkpoints say.
FP4_FIRST: Final = ("b200_sxm", "gb200", "b300_sxm", "gb300", "rtx_pro_6000_server")
BF16_FIRST: Final = ("a100_sxm", "b60")
STANDARD: Final = (4000, 1000)
OTHER_LENGTHS: Final = ((1024, 1024), (8192, 1024))
#: GPUs of a replica at most; more where a model does not fit.
GPUS: Final = 8
MORE_GPUS: Final = (16, 32)
#: Words of the refusals that more GPUs may heal.
TOO_FEW_GPUS: Final = ("no results", "does not fit", "InsufficientMemory", "NoFeasibleConfig", "no pair of")
KV_DTYPES: Final = ("bfloat16", "fp8")
MODES: Final[tuple[ServingMode, ...]] = ("agg", "disagg")


@dataclass(frozen=True)
class Wanted:
    """What may be asked: checkpoints of each model, by slug, and engines of each system."""

    checkpoints: Mapping[str, Sequence[str]]
    engines: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, program: Program, models: ModelCatalogue) -> "Wanted":
        """Every model of the catalogue that the program knows, on every system that it has."""
        checkpoints: dict[str, list[str]] = {}
        for name in program.models:
            if (spec := models.lookup(name)) is not None:
                checkpoints.setdefault(spec.slug, []).append(name)
        systems = sorted(program.systems, key=lambda name: (SYSTEMS.index(name) if name in SYSTEMS else 99, name))
        return cls(
            {spec.slug: checkpoints[spec.slug] for spec in models if spec.slug in checkpoints},
            {system: [name for name in ENGINES if name in program.systems[system]] for system in systems},
        )

    def stages(self, answers: Answers) -> Iterator[tuple[str, Sequence[Question]]]:
        """The questions of each stage, which may depend on the answers before it."""
        usual = [question for question in self._standard("agg") if self._is_usual(question)]
        yield "each model on each system, its usual precision and engine", usual
        yield "where that was refused, other checkpoints and engines", self._uncovered("agg", answers)
        for gpus in MORE_GPUS:
            yield f"where none fits, {gpus} GPUs", list(_with_more_gpus(self._uncovered("agg", answers), answers))
        yield "the other checkpoints and engines", self._standard("agg")
        first = list(self._first_answered(answers))
        yield "the other KV precision, as first answered", list(_of_other_kv(first, answers))
        lengths = [replace(each, isl=isl, osl=osl) for isl, osl in OTHER_LENGTHS for each in first]
        yield "other lengths, as first answered", lengths
        disaggregated = [replace(each, serving_mode="disagg") for each in first]
        yield "disaggregated, as first answered", disaggregated
        for gpus in MORE_GPUS:
            more = list(_with_more_gpus(disaggregated, answers))
            yield f"disaggregated, where none fits, {gpus} GPUs", more
        answered = [each for each in self._standard("agg") if answers.table(each)]
        yield "the other KV precision", list(_of_other_kv(answered, answers))
        disaggregated = [replace(each, serving_mode="disagg") for each in answered]
        yield "disaggregated", disaggregated
        yield "other lengths", [replace(each, isl=isl, osl=osl) for isl, osl in OTHER_LENGTHS for each in answered]
        yield "the other KV precision, disaggregated", list(_of_other_kv(disaggregated, answers))

    def every_question(self, answers: Answers) -> list[Question]:
        """All that is wanted, as far as the answers so far tell it, each once."""
        return list(dict.fromkeys(question for _, questions in self.stages(answers) for question in questions))

    def slug_of(self, question: Question) -> str:
        """The model that the checkpoint is of."""
        return next(slug for slug, names in self.checkpoints.items() if question.model in names)

    def _standard(self, mode: ServingMode) -> list[Question]:
        """Every checkpoint on every system and engine at the standard workload; engines together, a database each."""
        return [
            Question(system, name, engine, GPUS, mode, *STANDARD, (0,))
            for system, engines in self.engines.items()
            for engine in engines
            for names in self.checkpoints.values()
            for name in names
        ]

    def _is_usual(self, question: Question) -> bool:
        names = self.checkpoints[self.slug_of(question)]
        usual = min(names, key=lambda name: _rank_of_precision(name, question.system))
        return question.model == usual and question.backend == self.engines[question.system][0]

    def _uncovered(self, mode: ServingMode, answers: Answers) -> list[Question]:
        """Questions about a system and model that no answer is of yet."""
        standard = self._standard(mode)
        covered = {(each.system, self.slug_of(each)) for each in standard if answers.table(each)}
        return [each for each in standard if (each.system, self.slug_of(each)) not in covered]

    def _first_answered(self, answers: Answers) -> Iterable[Question]:
        """For each system and model the answered question of its usual precision and engine, the nearest to it else."""
        best: dict[tuple[str, str], Question] = {}
        every = self._standard("agg")
        every += list(_with_more_gpus(every, answers))
        for each in sorted(every, key=lambda each: (_rank_of_precision(each.model, each.system), each.total_gpus)):
            if answers.table(each):
                best.setdefault((each.system, self.slug_of(each)), each)
        return sorted(best.values(), key=lambda each: list(self.engines).index(each.system))


def _rank_of_precision(name: str, system: str) -> tuple[int, str]:
    """How soon a checkpoint of this name is asked about on a system."""
    bits = 4 if "FP4" in name else 8 if "FP8" in name else 16
    order = (4, 8, 16) if system in FP4_FIRST else (16, 8, 4) if system in BF16_FIRST else (8, 16, 4)
    return order.index(bits), name


def _with_more_gpus(questions: Iterable[Question], answers: Answers) -> Iterator[Question]:
    """The refused questions once more with more GPUs, each next number where the one before was refused too."""
    for question in questions:
        for gpus in MORE_GPUS:
            reason = answers.refused(question)
            if reason is None or not any(words in reason for words in TOO_FEW_GPUS):
                break
            question = replace(question, total_gpus=gpus)
            yield question


def _of_other_kv(questions: Iterable[Question], answers: Answers) -> Iterator[Question]:
    """The answered questions with the KV precision that their answers do not have."""
    for question in questions:
        own = answers.kv_dtype(question)
        if own is not None:
            yield replace(question, kv_dtype=next(name for name in KV_DTYPES if name != own))
