"""Serving points by the roofline for GPUs and models that no table covers (MODEL section 3)."""
