"""What backs an agent point: the error that the evaluation found for its like, and whether it lies beyond it."""

import polars as pl

from schemas.scenarios import Scenario
from transforms.agent_points import expected_errors as evaluated

#: A workload is beyond the evidence where it leaves what was evaluated by more than this factor.
BEYOND = 2.0


def batch_range() -> pl.Expr:
    """The range that a row's ``batch_per_rank`` lies in; NULL where it is not known."""
    expression = pl.lit(evaluated.ABOVE)
    for label, highest in reversed(evaluated.BATCH_RANGES):
        expression = pl.when(pl.col("batch_per_rank") <= highest).then(pl.lit(label)).otherwise(expression)
    return pl.when(pl.col("batch_per_rank").is_not_null()).then(expression)


def add_evidence(points: pl.DataFrame, scenario: Scenario) -> pl.DataFrame:
    """Adds ``expected_error_fraction`` and ``extrapolated`` to rows with ``transfer_method``.

    The error is the mapping's, not the table's: 0 for a direct row, NULL where its method was not evaluated. A
    point is extrapolated where nothing like it was evaluated: another source or engine than those of the
    reference sets (measured rows and rooflines are such), or prefills, contexts or outputs beyond twice, or
    below half of, what the reference turns span.
    """
    c = pl.col
    is_roofline = c("transfer_method") == "roofline"
    kind = pl.when(c("expert_dtype").is_null()).then(pl.lit("dense")).otherwise(pl.lit("experts"))
    roofline = pl.format("roofline {} {}", "backend_version", kind)
    method = pl.when(is_roofline).then(roofline).otherwise("transfer_method")
    error = pl.lit(None, pl.Float64)
    for (name, mode), errors in evaluated.EXPECTED_ERRORS.items():
        of_range = batch_range().replace_strict(errors, default=errors[evaluated.ANY], return_dtype=pl.Float64)
        error = pl.when((method == name) & (c("serving_mode") == mode)).then(of_range).otherwise(error)
    is_direct = c("transfer_method") == "direct"
    known = c("source").is_in(evaluated.EVALUATED_SOURCES) & c("backend").is_in(evaluated.EVALUATED_BACKENDS)
    as_evaluated = known & _workload_is_near(scenario)
    return points.with_columns(
        expected_error_fraction=pl.when(is_direct).then(0.0).otherwise(error),
        extrapolated=(~(is_direct | as_evaluated)).fill_null(True),
    )


def _workload_is_near(scenario: Scenario) -> pl.Expr:
    least_new, most_new = evaluated.EVALUATED_NEW_TOKENS
    least_out, most_out = evaluated.EVALUATED_OUTPUT_TOKENS
    out = scenario.output_tokens_per_turn
    near = (
        scenario.mean_context_tokens + out / 2 <= BEYOND * evaluated.EVALUATED_CONTEXT_TOKENS
        and least_out / BEYOND <= out <= BEYOND * most_out
    )
    return pl.lit(near) & pl.col("prefill_tokens_per_turn").is_between(least_new / BEYOND, BEYOND * most_new)
