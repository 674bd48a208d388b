"""The explorer: a static page that reads a release's Parquet in the browser."""
