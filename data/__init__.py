"""Shipped data: the catalogues of hardware, models and scenarios, and standard-serving tables."""
