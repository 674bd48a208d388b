"""The commands of `agent-pareto`, one module each."""
