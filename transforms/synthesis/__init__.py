"""Serving points by the roofline for GPUs and models that no table covers (model.md 3)."""
