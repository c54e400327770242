"""Resets that were asked for and wait, on SQL; each function is part of its caller's transaction."""

from __future__ import annotations

from dataclasses import replace

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ingest.metadata import tables as t
from ingest.metadata.records import ResetWish
from ingest.metadata.sql_base import next_count
from ingest.metadata.sql_rows import wish_of, wish_values
from ingest.metadata.sql_streams import require_stream


def load_wishes(connection: Connection, supervisor: str | None) -> list[ResetWish]:
    """In the order in which they were asked for."""
    query = sa.select(t.reset_wishes).order_by(t.reset_wishes.c.id)
    if supervisor is not None:
        query = query.where(t.reset_wishes.c.supervisor == supervisor)
    return [wish_of(row) for row in connection.execute(query)]


def store_wish(connection: Connection, wish: ResetWish) -> ResetWish:
    """Under a new id, unless an equal one waits; StoreConflict where the stream has no offsets."""
    require_stream(connection, wish.supervisor, wish.topic)
    for known in load_wishes(connection, wish.supervisor):
        if known == replace(wish, wish_id=known.wish_id, asked_ms=known.asked_ms):
            return known
    fresh = replace(wish, wish_id=next_count(connection, "wish", ""))
    connection.execute(sa.insert(t.reset_wishes).values(**wish_values(fresh)))
    return fresh
