"""How far mapped points are from reference points of the same configuration on the agent's own turn.

A reference row is one turn: a prompt of L tokens of which P are cached, and O output tokens. As a scenario
that is N = 1, Z = 0, h = 1, L0 = L, n1 = L - P, OSL = O. Standard rows are carried to it and joined with the
reference rows of the same configuration and load; a reference row whose workload the standard tables hold
for that configuration proves nothing and is left out.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import polars as pl

from schemas.caches import FixedCache
from schemas.catalogue import HardwareCatalogue, ModelCatalogue
from schemas.options import MappingOptions
from schemas.scenarios import Scenario
from transforms.agent_points.carry import Setting, carry_points
from transforms.agent_points.judgement.expected_errors import batch_range
from transforms.configurations import CONFIGURATION

#: Figure of a turn -> (column of the mapped point, column of the reference row).
FIGURES: Final = {
    "turn_latency": ("turn_latency_ms", "request_latency_ms"),
    "ttft": ("ttft_ms", "ttft_ms"),
    "tpot": ("tpot_ms", "tpot_ms"),
    "throughput": ("serving_requests_per_s", "requests_per_s"),
}
#: What the errors are grouped by, one at a time; "all" is one group of everything.
GROUPINGS: Final = (
    "all", "hardware", "model", "backend", "serving_mode", "source", "transfer_method", "batch_range", "turn",
)  # fmt: skip
WORKLOAD: Final = ("isl_tokens", "prefix_tokens", "osl_tokens")
#: What makes a mapped point and a reference row the same deployment under the same load. The file's origin does not.
PARTNER: Final = (
    *(name for name in CONFIGURATION if name not in ("source", "tool_version", "latency_statistic")),
    "batch_per_rank", "decode_batch", "context_requests_per_step",
)  # fmt: skip

Carry = Callable[[pl.DataFrame, Setting], pl.DataFrame]


@dataclass(frozen=True)
class Pairing:
    """``pairs``: a row for each reference row with a partner: what it is, ``<figure>_error`` and
    ``<figure>_reference``. ``reference_points``: rows that could count, with or without partner."""

    pairs: pl.DataFrame
    reference_points: int
    same_workload: int

    @property
    def without_partner(self) -> int:
        """Reference rows whose configuration and load the standard tables do not hold."""
        return self.reference_points - self.pairs.height


def turn_scenario(isl_tokens: float, prefix_tokens: float, osl_tokens: float) -> Scenario:
    """One turn as a scenario: N = 1, Z = 0, h = 1, L0 = isl, n1 = isl - prefix, OSL = osl."""
    return Scenario(
        slug="turn",
        name=turn_name(isl_tokens, prefix_tokens, osl_tokens),
        turns=1,
        think_time_s=0,
        initial_prompt_tokens=isl_tokens,
        new_tokens_per_turn=0,
        output_tokens_per_turn=osl_tokens,
        first_turn_new_tokens=isl_tokens - prefix_tokens,
        cache=FixedCache(hit_rate=1.0),
    )


def turn_name(isl_tokens: float, prefix_tokens: float, osl_tokens: float) -> str:
    """A turn in words: its prompt, the cached part of it, and its output, in tokens."""
    return f"isl {isl_tokens:.0f}, cached {prefix_tokens:.0f}, osl {osl_tokens:.0f}"


def count_turns(reference: pl.DataFrame) -> int:
    """Steps of ``compare_points``: turns of each model and GPU in the reference."""
    return reference.select("hardware", "model", *WORKLOAD).n_unique()


def compare_points(
    standard: pl.DataFrame,
    reference: pl.DataFrame,
    hardware: HardwareCatalogue,
    models: ModelCatalogue,
    options: MappingOptions | None = None,
    carry: Carry = carry_points,
    on_turn: Callable[[], None] = lambda: None,
) -> Pairing:
    """Carries ``standard`` to each turn of ``reference`` and compares, both rows of ``serving_points``.

    ``carry`` is what makes agent points of serving points: another one than the product's own for a baseline.
    """
    pairs: list[pl.DataFrame] = []
    counted = same = 0
    for (gpu_pair, model), rows in reference.partition_by("hardware", "model", as_dict=True).items():
        points = standard.filter(pl.col("hardware") == gpu_pair, pl.col("model") == model)
        setting = None
        for turn, wanted in _turns(rows):
            fresh = _without_same_workload(wanted, points)
            same += wanted.height - fresh.height
            counted += fresh.height
            on_turn()
            if points.is_empty() or fresh.is_empty():
                continue
            setting = Setting(
                turn_scenario(*turn),
                models.get(str(model)),
                hardware,
                options or MappingOptions(),
            )
            pairs.append(_pair(carry(points, setting), fresh, turn_name(*turn)))
    return Pairing(pl.concat([_no_pairs(), *pairs]), counted, same)


def summarise_errors(pairs: pl.DataFrame) -> pl.DataFrame:
    """The pairs' errors as rows of the table ``evaluation``: one for each grouping, group and figure."""
    frame = pairs.with_columns(all=pl.lit("all"))
    return pl.concat(_errors_by(frame, grouping, figure) for grouping in GROUPINGS for figure in FIGURES)


def _errors_by(frame: pl.DataFrame, grouping: str, figure: str) -> pl.DataFrame:
    error = pl.col(f"{figure}_error")
    return (
        frame.group_by(grouping, maintain_order=True)
        .agg(
            points=error.count().cast(pl.Int64),
            mean_error_fraction=error.abs().mean(),
            median_error_fraction=error.abs().median(),
            p90_error_fraction=error.abs().quantile(0.9, "linear"),
            signed_error_fraction=error.mean(),
        )
        .filter(pl.col("points") > 0)
        .sort(grouping)
        .select(
            pl.lit(grouping).alias("grouped_by"),
            pl.col(grouping).alias("group"),
            pl.lit(figure).alias("figure"),
            pl.exclude(grouping),
        )
    )


def _turns(rows: pl.DataFrame) -> Iterator[tuple[tuple[float, float, float], pl.DataFrame]]:
    for key, part in rows.partition_by(*WORKLOAD, as_dict=True, maintain_order=True).items():
        yield (float(key[0]), float(key[1]), float(key[2])), part


def _without_same_workload(reference: pl.DataFrame, standard: pl.DataFrame) -> pl.DataFrame:
    held = standard.select(*PARTNER, *WORKLOAD).unique()
    return reference.join(held, on=[*PARTNER, *WORKLOAD], how="anti", nulls_equal=True)


def _pair(mapped: pl.DataFrame, reference: pl.DataFrame, turn: str) -> pl.DataFrame:
    """The reference rows that have a mapped partner, with the errors of its figures."""
    own = mapped.filter(~pl.col("interpolated"), pl.col("transfer_method") != "direct")
    own = own.unique(PARTNER, keep="first", maintain_order=True).select(
        *PARTNER,
        "source",
        "transfer_method",
        *(pl.col(name).alias(f"_{figure}") for figure, (name, _) in FIGURES.items()),
    )
    joined = reference.drop("source").join(own, on=PARTNER, how="inner", nulls_equal=True)
    return joined.select(
        *_no_pairs().columns[: -2 * len(FIGURES) - 2],
        batch_range().alias("batch_range"),
        pl.lit(turn).alias("turn"),
        *(pl.col(name).alias(f"{figure}_reference") for figure, (_, name) in FIGURES.items()),
        *(
            # a figure of nothing has no error: the TPOT of a turn of one token
            pl.when(pl.col(name) > 0).then(pl.col(f"_{figure}") / pl.col(name) - 1).alias(f"{figure}_error")
            for figure, (_, name) in FIGURES.items()
        ),
    )


def _no_pairs() -> pl.DataFrame:
    """A frame of pairs with no row."""
    texts = ("hardware", "model", "backend", "serving_mode", "source", "transfer_method")
    return pl.DataFrame(
        schema={
            **dict.fromkeys(("point_id", *texts), pl.String),
            **dict.fromkeys((*WORKLOAD, "batch_per_rank"), pl.Float64),
            "batch_range": pl.String,
            "turn": pl.String,
            **{f"{figure}_reference": pl.Float64 for figure in FIGURES},
            **{f"{figure}_error": pl.Float64 for figure in FIGURES},
        }
    )
