"""Writes, reads and merges the Parquet files that segments are stored in."""
