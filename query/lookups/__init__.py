"""Lookups: small tables of keys and values that statements join with, posted, or read from files and databases."""
