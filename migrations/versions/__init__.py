"""The revisions, numbered in order; each is tested on SQLite and PostgreSQL."""
