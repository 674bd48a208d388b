"""Serving points carried over to one scenario, step by step.

``carry.py`` calls the steps in order: pick one row for each configuration and load (``select``), put
its engine steps at the agent's workload (``aggregated``, ``disaggregated``, ``roofline_points``,
``ratio``), close the loop (``sessions``), count what memory holds (``capacity``), judge
(``feasibility``), add the point at the KV wall (``kv_wall``).
"""
