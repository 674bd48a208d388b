"""The lake: immutable releases of Parquet, a DuckDB file of views over the newest one, and a pointer to it.

``layout`` knows every path, ``release`` writes, ``publish`` puts in place, ``reader`` finds, ``retention``
rolls back and prunes, ``query`` runs SQL. Nothing is imported here, so that reading does not pay for writing.
"""
