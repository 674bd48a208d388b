"""The files behind the page's view of single turns: what each turn computes, and what it adds to each row."""

import json
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
import polars as pl

from pipelines.answering.release_contents import ReleaseContents
from pipelines.building.build_inputs import engine_library
from schemas.errors import UserError
from schemas.scenarios import Scenario
from transforms.agent_points.memory.idle_kv import scenario_under
from transforms.agent_points.prepare import PreparedPoints, prepare_points
from transforms.agent_points.single_turns import ON_HIT, ON_MISS, TurnWork, kv_is_linear, turn_differences, turn_work

#: A row whose published latency is not what this version carries it to has no figures by turn.
TOLERANCE: Final = 1e-6


class Turns:
    """Turns of the points of one release, worked out from its serving points."""

    def __init__(self, contents: ReleaseContents) -> None:
        self._contents = contents
        self._prepared = lru_cache(maxsize=32)(self._prepare)

    @cached_property
    def missing(self) -> str | None:
        """Why there are none: a release of a version that did not keep what it was built with; None if there are."""
        try:
            _ = self._contents.scenarios, self._contents.hardware
            for spec in self._contents.models:
                if gpus := self._contents.hardware_with(spec.slug):
                    self._contents.read("serving_points", gpus[:1], spec.slug)
                    break
        except UserError as error:
            return str(error)
        return None

    def missing_of(self, scenario: str) -> str | None:
        """Why a scenario of the release has none; None if it has."""
        if self.missing is None and self._contents.scenarios[scenario].mix is not None:
            return "A mix has no turns of its own: they are those of its scenarios."
        if self.missing is None and self._contents.scenarios[scenario].routing == "random":
            return "A turn that is sent to any replica finds what its session left there: it is not a hit or a miss."
        return self.missing

    def work(self, model: str, scenario: str) -> bytes:
        """JSON: what the prefill of each turn computes, and at which turns the rows are evaluated."""
        groups, asked = self._contents.models.get(model).attention, self._scenario(scenario)
        agg, disagg = (turn_work(asked, groups, prefill_sees_output=sees) for sees in (True, False))
        content = {
            "turn": np.linspace(1.0, asked.turns, len(agg.context_tokens)).tolist(),
            "kv_is_linear": kv_is_linear(asked, groups, agg.context_tokens, self._contents.options),
            "mean_context_tokens": asked.mean_context_tokens,
            "peak_context_tokens": asked.peak_context_tokens,
            "context_tokens": agg.context_tokens.tolist(),
            "evaluated_on_hit": agg.evaluated_on_hit,
            "evaluated_on_miss": agg.evaluated_on_miss,
            "agg": _prefills(agg),
            "disagg": _prefills(disagg),
        }
        return json.dumps(content, allow_nan=False).encode()

    def differences(self, hardware: str, model: str, scenario: str, published: pl.DataFrame) -> pl.DataFrame:
        """``ON_HIT`` and ``ON_MISS`` of each published row, in their order; NULL at interpolated ones and of mixes."""
        asked, keyed = self._scenario(scenario), published.with_columns(hardware=pl.lit(hardware))
        differences = turn_differences(self._prepared(hardware, model), asked, keyed).drop("hardware")
        rows = published.select("point_id", "turn_latency_ms", "transfer_method").join(
            differences, on="point_id", how="left", maintain_order="left"
        )
        c = pl.col
        as_published = (c("carried_latency_ms") / c("turn_latency_ms") - 1).abs() <= TOLERANCE
        # a turn of a mix is of one of several scenarios
        shown = (as_published | (c("transfer_method") == "direct")) & (asked.mix is None)
        return rows.select(pl.when(shown).then(name).alias(name) for name in (*ON_HIT, *ON_MISS))

    def _scenario(self, slug: str) -> Scenario:
        return scenario_under(self._contents.scenarios[slug], self._contents.options)

    def _prepare(self, hardware: str, model: str) -> PreparedPoints:
        contents = self._contents
        points = contents.read("serving_points", [hardware], model)
        engines = engine_library(contents.engines, contents.hardware, contents.models)
        return prepare_points(points, contents.models.get(model), contents.hardware, engines)


def _prefills(work: TurnWork) -> dict[str, list[float]]:
    names = ("new_on_hit", "new_on_miss", "flops_on_hit", "flops_on_miss")
    return {name: getattr(work, name).tolist() for name in names}
