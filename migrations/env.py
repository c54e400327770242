"""Runs the migrations on the connection that ``ingest.metadata.schema.migrate`` hands in."""

from __future__ import annotations

from alembic import context

from ingest.metadata.tables import metadata

connection = context.config.attributes.get("connection")
if connection is None:
    raise RuntimeError("migrations run through `siltstone migrate`, which opens the database as the service does")

# SQLite's DDL is transactional too once BEGIN is sent by hand, as ingest.metadata.engine does.
context.configure(connection=connection, target_metadata=metadata, transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
