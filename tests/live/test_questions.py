"""What is asked: the scenarios' own workloads (model.md 5.1), names of the tool and of the catalogue."""

import re
from pathlib import Path

import pytest

from pipelines.live.program import Program
from pipelines.live.questions import Question, questions
from pipelines.reading.catalogues import load_hardware, load_models, load_scenarios
from schemas.caches import FixedCache
from schemas.errors import UserError
from schemas.options import LiveOptions
from schemas.scenarios import Scenario
from tests.live.stand_in import MODELS, SYSTEMS
from tests.transforms.factory import article_scenario
from transforms.agent_points.selection.alternatives import OwnWorkload, own_workload

PROGRAM = Program(Path("python"), "0.12.0", SYSTEMS, MODELS)


def ask(*scenarios: Scenario, **options: object) -> list[Question]:
    live = LiveOptions.model_validate({"source": "aiconfigurator", **options})
    return questions(live, PROGRAM, scenarios, load_hardware(), load_models())


def test_own_workload_of_the_code_agent() -> None:
    """Lbar = 16,000 + 3.5 * 628 = 18,198. A hit prefills 500; with the last output 500 and seven times 628."""
    scenario = article_scenario()
    assert own_workload(scenario, "agg") == OwnWorkload(18_198, 128, (17_698, 0))
    assert own_workload(scenario, "disagg") == OwnWorkload(18_198, 128, (18_198 - 612, 0))
    assert own_workload(article_scenario(cache=FixedCache(hit_rate=1.0)), "agg") == OwnWorkload(18_198, 128, (17_698,))


def test_a_miss_finds_the_shared_prompt_in_the_cache() -> None:
    assert own_workload(article_scenario(shared_prefix_tokens=6_000.0), "agg").prefixes == (17_698, 6_000)


def test_standard_workloads_and_own_ones_each_once() -> None:
    (scenario,) = load_scenarios(["code-agent"])
    asked = ask(scenario, scenario, system=["h200_sxm"], model=["Qwen/Qwen3-32B"])
    shape = ("h200_sxm", "Qwen/Qwen3-32B", "trtllm", 8)
    assert asked == [
        Question(*shape, "agg", 4_000, 1_000, (0,)),
        Question(*shape, "disagg", 4_000, 1_000, (0,)),
        Question(*shape, "agg", 18_198, 128, (17_698, 0)),
        Question(*shape, "disagg", 18_198, 128, (17_586, 0)),
    ]
    assert len({question.name for question in asked}) == 4
    more = ask(
        scenario, system=["h200_sxm", "h100-sxm"], model=["Qwen/Qwen3-32B", "llama-3.1-8b"], total_gpus=[4, 8],
        workload=["1024/1024", "4000/1000"],
    )  # fmt: skip
    assert len(more) == 2 * 2 * 2 * (2 + 1) * 2


@pytest.mark.parametrize(
    ("given", "known"),
    [
        ("Qwen/Qwen3-32B", "Qwen/Qwen3-32B"),
        ("qwen3-32b", "Qwen/Qwen3-32B"),
        ("Meta-Llama-3.1-70B", "meta-llama/Meta-Llama-3.1-70B"),
        ("llama-3-1-8b", "meta-llama/Meta-Llama-3.1-8B"),
    ],
)
def test_names_of_models(given: str, known: str) -> None:
    assert {question.model for question in ask(system=["H200-SXM"], model=[given])} == {known}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"system": ["h20_sxm"], "model": ["qwen3-32b"]}, "does not know it. Did you mean h200_sxm or h100_sxm"),
        ({"system": ["h200_sxm"], "model": ["Qwen3-33B"]}, "does not know it. Did you mean Qwen/Qwen3-32B"),
        ({"system": ["mi355x"], "model": ["qwen3-32b"]}, "does not know it. It has gb200, h100_sxm, h200_sxm."),
        (
            {"system": ["h200_sxm"], "model": ["llama-3.1-70b"]},
            "name meta-llama/Meta-Llama-3.1-70B or nvidia/Llama-3.1-70B-Instruct-FP8.",
        ),
        (
            {"system": ["h200_sxm"], "model": ["qwen3-32b"], "backend": ["vllm"]},
            "no data of vllm on h200_sxm; it has data of sglang, trtllm.",
        ),
        ({"system": ["gb200"], "model": ["qwen3-32b"]}, "no data of trtllm on gb200; it has data of no backend."),
    ],
)
def test_what_is_not_known_is_said(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(UserError, match=re.escape(sentence)):
        ask(**options)
