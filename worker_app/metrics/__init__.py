"""Metrics: numbers about the teams. One family a file, pure: records in, rows out. `daily` takes them through the store."""
