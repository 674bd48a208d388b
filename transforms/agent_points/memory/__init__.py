"""What memory holds of the sessions, what pauses cost it, and what it evicts (MODEL sections 4 and 7)."""
