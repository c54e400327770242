"""Collects rows into hydrants and turns finished sequences into segments."""
