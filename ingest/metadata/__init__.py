"""The metadata database: its tables, its store port and the publish transaction."""
