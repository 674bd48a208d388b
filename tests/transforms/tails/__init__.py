"""Waits behind other sessions, and the first token's queue."""
