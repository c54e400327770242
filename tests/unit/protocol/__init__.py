"""The pure machines, cell by cell."""
