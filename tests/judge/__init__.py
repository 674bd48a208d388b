"""Outcomes of vLLM's own scheduler on a virtual clock, recorded, and what is published beside them."""
