"""Rows carried to the agent's workload: by engine steps, pools, the roofline, or a ratio (model.md 5.2)."""
