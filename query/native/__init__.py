"""Druid's native JSON queries: reads a query object and rewrites it for the engine."""
