"""A published release read back, for the commands that answer from it."""
