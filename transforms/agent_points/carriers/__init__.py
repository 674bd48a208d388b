"""Rows carried to the agent's workload: by engine steps, pools, the roofline, or a ratio (MODEL 5.2)."""
