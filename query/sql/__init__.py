"""Druid SQL: parses a statement, checks it and rewrites it for the engine."""
