"""Schema migrations of the metadata database, shipped with the service."""
