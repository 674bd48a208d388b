"""Each configuration at the number of sessions that its scenario fixes (Step 7, MODEL 5.7)."""
