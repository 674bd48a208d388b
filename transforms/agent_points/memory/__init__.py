"""What memory holds of the sessions, what pauses cost it, and what it evicts (model.md 4 and 7)."""
