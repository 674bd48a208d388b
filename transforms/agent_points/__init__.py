"""Serving points carried over to scenarios, step by step.

``prepare.py`` does once what no scenario changes: look up what a row runs on (``rows``), number its configuration and
curve, take its steps apart. ``carry.py`` calls the steps of one scenario in order: pick one row for each configuration
and load (``selection``), put its engine steps at the agent's workload (``carriers``), close the loop (``sessions.py``),
count what memory holds (``memory``), judge (``judgement``), add the point at the KV wall (``curve``). Columns are
arrays, on which the equations run; rows stay in one frame, known by their places there, and what a configuration's
rows have in common is worked out once for it.
"""
