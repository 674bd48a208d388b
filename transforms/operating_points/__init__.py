"""Each configuration at the number of sessions that its scenario fixes (Step 7, model.md 5.7)."""
