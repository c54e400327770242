"""Druid's expression language: trees, their parser and the table of its functions, for queries and transforms alike."""
