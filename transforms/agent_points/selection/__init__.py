"""Which rows a scenario takes: one workload for each configuration and load (model.md 5.1 and 5.9)."""
