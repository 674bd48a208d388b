"""What the README's recipes do, run in environments of their own."""
