"""Engines fitted to measured rows."""
