"""Tests of `pipelines/reading`."""
