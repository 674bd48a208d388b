"""What tells two runs of one shape apart: a server flag, a label, the name of the run.

A sweep of server flags writes its flags beside its figures. Rows that differ in one of them are configurations of
their own; what is a figure, a clock or a name of the run's machine tells no deployment from another.
"""

import re
from collections.abc import Collection, Mapping
from typing import Final

import polars as pl

from schemas.sidecar import Sidecar

MAX_CHARACTERS: Final = 500
#: Keys that no flag of a server has: figures (of any statistic or unit), counts, clocks, and names of a run.
_FIGURE: Final = re.compile(
    r"(mean|median|std|avg|p\d+(\.\d+)?|total|num)_.*"
    r"|.*(_ms|_s|_sec|_seconds|_throughput|_per_s|_per_sec|_per_second|_rate|_count|_percent|_watts|_joules|_tput"
    r"|tput_per_gpu|goodput)"
    r"|(date|time|timestamp|start|end|start_time|end_time|uuid|id|run|run_id|run_number|run_index|seed|host|hostname"
    r"|path|file|filename|command|url|version|commit)"
    r"|.*(_version|_commit|_hash|_id|_path|_url|_dir|_time|_timestamp|_at)"
)


def other_settings(record: Mapping[str, object], known: Collection[str]) -> str | None:
    """``key=value; key=value`` of the scalar keys that are neither ``known`` nor figures; None where there are none."""
    return setting_text({
        key: value for key, value in record.items() if key not in known and _FIGURE.fullmatch(key.lower()) is None
    })  # fmt: skip


def setting_text(values: Mapping[str, object]) -> str | None:
    """``key=value; key=value`` by name, without what is not given; None where nothing is."""
    parts = [
        f"{key}={value}"
        for key, value in sorted(values.items())
        if value is not None and value != "" and not isinstance(value, dict | list | tuple)
    ]
    text = "; ".join(parts).encode(errors="replace").decode()
    return text[:MAX_CHARACTERS] or None


def add_said_setting(rows: pl.DataFrame, sidecar: Sidecar | None, by_run: bool) -> pl.DataFrame:
    """The rows whose ``setting`` says the setting of ``source.yaml`` too, and with ``by_run`` its run."""
    said = [f"run={sidecar.run}"] if by_run and sidecar and sidecar.run else []
    said += [sidecar.setting] if sidecar and sidecar.setting else []
    if not said:
        return rows
    joined = pl.concat_str(pl.lit("; ".join(said)), "setting", separator="; ", ignore_nulls=True)
    return rows.with_columns(setting=joined)
