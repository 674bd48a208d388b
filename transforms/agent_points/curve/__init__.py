"""Rows that differ only in their load, and where their curve meets memory (MODEL 5.6)."""
