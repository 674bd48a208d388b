"""Tests of `pipelines/building`."""
