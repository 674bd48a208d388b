"""The README as users read it: its commands, outputs, figures, names and links."""
