"""Serving points carried over to scenarios, step by step.

``prepare.py`` does once what no scenario changes: look up what a row runs on (``private``, ``gpu``),
number its configuration and curve, take its steps apart. ``carry.py`` calls the steps of one scenario in
order: pick one row for each configuration and load (``select``), put its engine steps at the agent's
workload (``aggregated``, ``disaggregated``, ``roofline_points``, ``roofline_pools``, ``ratio``), close the
loop (``sessions``), count what memory holds (``capacity``), judge (``feasibility``), add the point at the
KV wall (``kv_wall``). ``rows.py``: columns as arrays, on which the equations run; rows stay in one frame,
known by their places there, and what a configuration's rows have in common is worked out once for it.
"""
