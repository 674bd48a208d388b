"""How many GPUs a number of sessions needs, from published agent points."""
