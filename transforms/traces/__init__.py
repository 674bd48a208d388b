"""Agent traces: files of several formats to requests, requests to the statistics of a scenario."""
