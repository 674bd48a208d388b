"""What no column of an AIConfigurator table says and ``exp_config.yaml`` beside it does: drafts, database mode.

``nextn`` tokens are drafted in a step. Release 0.12 says the mean of those accepted (``nextn_accepted``), so
that a step yields one more; before, chances by position (``nextn_accept_rates``), each given the one before.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl
import yaml

from schemas.sentences import show
from transforms.serving_points.rules import Rule, flag_rows
from transforms.sources.rows import FileRejectedError

CONFIG_NAME: Final = "exp_config.yaml"
#: The database of kernels that were all measured.
MEASURED_MODE: Final = "SILICON"
#: Chances that AIConfigurator took before 0.12 where a configuration gave none.
DEFAULT_RATES: Final = (0.85, 0.3, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Drafts:
    """Tokens drafted and tokens that come out, in a step; ``workload`` is what the configuration asks for.

    ``database_mode`` is what the kernel times were taken from; None where the configuration does not tell.
    """

    drafted: int
    yielded: float
    workload: Mapping[str, float]
    database_mode: str | None = None


def drafts_beside(beside: Mapping[str, bytes]) -> Drafts | None:
    """What ``exp_config.yaml`` says of drafts; None where it is not there or says nothing.

    Raises ``FileRejectedError`` where it says what cannot be.
    """
    if CONFIG_NAME not in beside:
        return None
    try:
        config = yaml.safe_load(beside[CONFIG_NAME])
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise FileRejectedError(f"{CONFIG_NAME} beside the file is no YAML: {str(error).splitlines()[0]}") from error
    if not isinstance(config, dict):
        return None
    inner = config.get("config")
    said = {**(inner if isinstance(inner, dict) else {}), **config}
    drafted = _number(said.get("nextn") or 0, "nextn")
    if not 0 <= drafted <= 1000 or drafted != int(drafted):
        raise FileRejectedError(f"{CONFIG_NAME} beside the file has nextn: {drafted:g}, not a count of tokens")
    workload = {name: _number(said[name], name) for name in ("isl", "osl") if said.get(name) is not None}
    accepted = _accepted(said, int(drafted)) if drafted else 0.0
    if not 0 <= accepted <= drafted:
        raise FileRejectedError(f"{CONFIG_NAME} beside the file accepts {accepted:g} of {drafted:g} drafted tokens")
    mode = said.get("database_mode")
    if mode is not None and not isinstance(mode, str):
        raise FileRejectedError(f"{CONFIG_NAME} beside the file has database_mode: {show(mode)}, not a word")
    return Drafts(int(drafted), 1.0 + accepted, workload, mode.strip().upper() or None if mode else None)


def add_drafts(rows: pl.DataFrame, drafts: Drafts | None) -> pl.DataFrame:
    """The rows with ``draft_tokens``, ``accepted_tokens``, ``database_mode``: their own, else the configuration's.

    A configuration with drafts must be that of the table: its lengths are those of every row.
    """
    for name in ("nextn", "nextn_accepted"):
        if name not in rows.columns:
            rows = rows.with_columns(pl.lit(None, pl.Float64).alias(name))
    own, accepted = pl.col("nextn"), pl.col("nextn_accepted")
    stated = drafts or Drafts(0, 1.0, {})
    told = pl.lit(stated.database_mode, pl.String)
    mode = pl.coalesce("database_mode", told) if "database_mode" in rows.columns else told
    rules = [
        Rule("missing_value", (own > 0) & accepted.is_null(), pl.lit("nextn_accepted is not given beside nextn")),
        Rule(
            "drafts_do_not_fit",
            (own < 0) | (accepted < 0) | (accepted > own),
            pl.format("nextn is {}, nextn_accepted is {}", own, accepted),
        ),
    ]
    if stated.drafted or stated.database_mode:
        rules += [
            Rule(
                "configuration_differs",
                own.is_null() & (pl.col(name) != value),
                pl.format(f"{name} is {{}}, but {value:g} in the {CONFIG_NAME} beside: it is of another table", name),
            )
            for name, value in stated.workload.items()
        ]
    return flag_rows(rows, rules).with_columns(
        database_mode=mode,
        # estimated kernels are another table than measured ones of the same deployment
        setting=pl.when(mode != MEASURED_MODE).then("database_mode=" + mode),
        draft_tokens=own.fill_null(stated.drafted),
        accepted_tokens=pl.when(own.is_null()).then(stated.yielded).otherwise(1.0 + accepted.fill_null(0.0)),
    )


def _accepted(said: Mapping[str, Any], drafted: int) -> float:
    """Mean accepted tokens of ``drafted``."""
    if said.get("nextn_accepted") is not None:
        return _number(said["nextn_accepted"], "nextn_accepted")
    rates = said.get("nextn_accept_rates", DEFAULT_RATES)
    if not isinstance(rates, Sequence) or isinstance(rates, str):
        raise FileRejectedError(f"{CONFIG_NAME} beside the file has nextn_accept_rates: {show(rates)}, not a list")
    chances = [_number(rate, "nextn_accept_rates") for rate in rates[:drafted]]
    return sum(math.prod(chances[: position + 1]) for position in range(len(chances)))


def _number(value: object, name: str) -> float:
    number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    if not math.isfinite(number):
        raise FileRejectedError(f"{CONFIG_NAME} beside the file has {name}: {show(value)}, not a number")
    return number
