"""Benchmarks: they print figures and ratios, and are no part of the test suite."""
