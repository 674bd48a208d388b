"""Rows of the mapping as arrays, the names of their columns, and what each row runs on."""
