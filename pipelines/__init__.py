"""What touches the world: files, Prefect, DuckDB and the command line."""
