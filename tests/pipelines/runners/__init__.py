"""Tests of `pipelines/runners`."""
