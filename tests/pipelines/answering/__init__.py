"""Tests of `pipelines/answering`."""
