"""Tests of `pipelines/commands`."""
