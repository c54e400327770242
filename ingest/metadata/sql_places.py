"""Numbers that stand for partitions of several topics, on SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ingest.metadata import tables as t
from ingest.metadata.sql_base import SqlBase
from ingest.metadata.sql_streams import load_offsets, lock_stream
from ingest.protocol import Place, Source
from ingest.protocol.places import ReadBefore, furthest_read, numbered, read_by, with_new_ids


def load_places(connection: Connection, supervisor: str, stream: str) -> tuple[Place, ...]:
    """In order of number; none for a single topic."""
    columns = t.stream_places.c
    mine = sa.and_(columns.supervisor == supervisor, columns.stream == stream)
    query = sa.select(columns.number, columns.topic, columns.partition).where(mine).order_by(columns.number)
    return tuple(Place(row.number, row.topic, row.partition) for row in connection.execute(query))


class SqlPlaces(SqlBase):
    """The part of ``ingest.metadata.store.OffsetStore`` about several topics."""

    def name_partitions(
        self, generation: int, supervisor: str, stream: str, found: Sequence[Source], ids: Mapping[str, str]
    ) -> tuple[Place, ...]:
        def name(connection: Connection) -> tuple[Place, ...]:
            # Only the leader numbers, in one thread; a stream that has offsets is locked for its topic id.
            row = lock_stream(connection, supervisor, stream)
            known = load_places(connection, supervisor, stream)
            named = numbered(known, found)
            fresh = [
                {
                    "supervisor": supervisor,
                    "stream": stream,
                    "number": p.number,
                    "topic": p.topic,
                    "partition": p.partition,
                }
                for p in named[len(known) :]
            ]
            if fresh:
                connection.execute(sa.insert(t.stream_places), fresh)
            if row is not None and (topic_id := with_new_ids(row.topic_id, ids)) != row.topic_id:
                mine = sa.and_(t.streams.c.supervisor == supervisor, t.streams.c.topic == stream)
                connection.execute(sa.update(t.streams).where(mine).values(topic_id=topic_id))
            return named

        return self._fenced(generation, name)

    def places(self, supervisor: str, stream: str) -> tuple[Place, ...]:
        return self._read(lambda connection: load_places(connection, supervisor, stream))

    def read_before(self, supervisor: str, stream: str) -> dict[Source, ReadBefore]:
        mine = sa.and_(t.streams.c.supervisor == supervisor, t.streams.c.topic != stream)

        def read(connection: Connection) -> dict[Source, ReadBefore]:
            found: list[tuple[Source, ReadBefore]] = []
            for name in connection.execute(sa.select(t.streams.c.topic).where(mine)).scalars().all():
                stored = load_offsets(connection, supervisor, name)
                assert stored is not None
                found += read_by(name, stored.topic_id, stored.committed, load_places(connection, supervisor, name))
            return furthest_read(found)

        return self._read(read)
