"""The folder of this program in the user's cache. What lies in it may be deleted: it costs time to make again."""

import os
from pathlib import Path


def user_cache() -> Path:
    """The folder, which need not exist. Raises ``RuntimeError`` where the user has no home folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agent-pareto"
