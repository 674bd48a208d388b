"""What a point is worth: whether it can be run, what stops it, what backs it, what it costs."""
