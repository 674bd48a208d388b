"""Faults on purpose, with a seed and a count: killed and stopped builders, damaged releases.

``AGENT_PARETO_FAULTS=5`` tries five times as many, ``AGENT_PARETO_FAULTS_SEED=2`` others.
"""
