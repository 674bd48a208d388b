"""A configuration in a few letters, as `plan` and `what-if` show it."""

from collections.abc import Mapping
from typing import Any


def shape_of(row: Mapping[str, Any]) -> str:
    """`tp4 pp2`, or `2x(tp4) + 1x(tp8)` for prefill and decode workers; what is 1 or unknown is left out."""
    if row["serving_mode"] == "agg":
        return _worker(row, "")
    pools = (f"{row[f'{pool}_workers']}x({_worker(row, f'{pool}_')})" for pool in ("prefill", "decode"))
    return " + ".join(pools)


def _worker(row: Mapping[str, Any], prefix: str) -> str:
    parts = [f"tp{row[f'{prefix}tp']}"]
    for name, short in (("pp", "pp"), ("dp", "dp"), ("moe_ep", "ep")):
        count = row[f"{prefix}{name}"]
        if count is not None and count > 1:
            parts.append(f"{short}{count}")
    return " ".join(parts)
