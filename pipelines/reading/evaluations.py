"""Errors that `agent-pareto evaluate --save` wrote, read for a release that carries them."""

from pathlib import Path

import polars as pl

from schemas.errors import UserError
from schemas.frames import FrameError, conform


def load_evaluation(path: Path) -> pl.DataFrame:
    """The table ``evaluation`` of a file. Raises ``UserError`` where it is none."""
    if not path.is_file():
        raise UserError(f"{path} does not exist: name a file that `agent-pareto evaluate --save FILE` wrote.")
    try:
        return conform(pl.read_parquet(path), "evaluation")
    except (FrameError, pl.exceptions.PolarsError) as error:
        raise UserError(f"{path} is not what `agent-pareto evaluate --save FILE` writes: {error}") from error
