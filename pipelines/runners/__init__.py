"""What runs a build: Prefect without a server to keep, and Dask."""
