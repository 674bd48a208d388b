"""What backs an agent point: the error that the evaluation found for its like, and whether it lies beyond it."""

from typing import Final

import numpy as np
import polars as pl

from schemas.scenarios import Scenario
from transforms.agent_points.judgement import expected_errors as evaluated
from transforms.agent_points.rows.columns import BEYOND_MEASURED, DEVIATIONS
from transforms.agent_points.rows.labels import LABELS, code
from transforms.agent_points.rows.rows import Rows
from transforms.numbers import Number

#: A workload is beyond the evidence where it leaves what was evaluated by more than this factor.
BEYOND = 2.0
#: Mean of the absolute value of a normal distribution over its standard deviation.
MEAN_OVER_DEVIATION: Final = 0.798
#: The ranges of a batch in order, rows without a known batch last.
RANGES: Final = (*(label for label, _ in evaluated.BATCH_RANGES), evaluated.ABOVE, evaluated.ANY)


def batch_range() -> pl.Expr:
    """The range that a row's ``batch_per_rank`` lies in; NULL where it is not known."""
    number = batch_range_number()
    labels = dict(enumerate(RANGES[:-1]))
    return number.replace_strict(labels, default=None, return_dtype=pl.String)


def batch_range_number() -> pl.Expr:
    """The place in ``RANGES`` of the range that a row's ``batch_per_rank`` lies in."""
    batch = pl.col("batch_per_rank")
    above = pl.sum_horizontal((batch > highest).cast(pl.Int32) for _, highest in evaluated.BATCH_RANGES)
    return pl.when(batch.is_null()).then(len(RANGES) - 1).otherwise(above)


def is_evaluated() -> pl.Expr:
    """Whether a row's source and engine are those of the reference sets; measured rows and rooflines are not."""
    known = pl.col("source").is_in(evaluated.EVALUATED_SOURCES) & pl.col("backend").is_in(evaluated.EVALUATED_BACKENDS)
    return known.fill_null(False)


def add_evidence(rows: Rows, scenario: Scenario, mode: str, roofline: str | None, is_latent: bool = False) -> Rows:
    """Adds ``expected_error_fraction`` and ``extrapolated`` to rows with ``transfer_method``, of one serving mode.

    The error is the mapping's, not the table's: 0 for a direct row, NULL where its method was not evaluated. A
    point is extrapolated where nothing like it was evaluated: another source or engine than those of the
    reference sets, or prefills, contexts or outputs beyond twice, or below half of, what the reference turns span.
    ``roofline``: the preset of roofline rows and their kind of model, "calibrated dense". ``is_latent``: the model
    has latent attention (MLA), whose transfer was evaluated by itself.
    """
    method = rows["transfer_method"]
    by_method = np.full((len(LABELS["transfer_method"]), len(RANGES)), np.nan)
    kinds = {"roofline": f"roofline {roofline}"}
    if is_latent and mode == "agg":
        kinds["transfer"] = "transfer latent"
    for name in ("transfer", "ratio", "roofline"):
        errors = evaluated.EXPECTED_ERRORS.get((kinds.get(name, name), mode))
        if errors is not None:
            by_method[code("transfer_method", name)] = [errors[label] for label in RANGES]
    by_method[code("transfer_method", "direct")] = 0.0
    is_direct = method == code("transfer_method", "direct")
    as_evaluated = rows["_is_evaluated"] & workload_is_near(scenario, rows["prefill_tokens_per_turn"])
    errors = by_method[method, rows["_batch_range"].astype(np.intp)]
    is_calibrated = method == code("transfer_method", "calibrated")
    beyond = rows.select(["unmeasured_load"]).to_series().eq_missing(BEYOND_MEASURED).to_numpy()
    return rows.with_figures(
        expected_error_fraction=np.where(is_calibrated, MEAN_OVER_DEVIATION * rows[DEVIATIONS[0]], errors),
        extrapolated=np.where(is_calibrated, beyond, ~(as_evaluated | is_direct)),
    )


def workload_is_near(scenario: Scenario, prefill_tokens: Number) -> Number:
    """Whether turns are like the reference turns."""
    least_new, most_new = evaluated.EVALUATED_NEW_TOKENS
    least_out, most_out = evaluated.EVALUATED_OUTPUT_TOKENS
    out = scenario.output_tokens_per_turn
    near = (
        scenario.mean_context_tokens + out / 2 <= BEYOND * evaluated.EVALUATED_CONTEXT_TOKENS
        and least_out / BEYOND <= out <= BEYOND * most_out
    )
    return near & (least_new / BEYOND <= prefill_tokens) & (prefill_tokens <= BEYOND * most_new)
