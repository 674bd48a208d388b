"""Rows that differ only in their load, and where their curve meets memory (model.md 5.6)."""
