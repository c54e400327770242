"""Tables and segments as queries and operators see them, on SQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ingest.metadata import tables as t
from ingest.metadata.records import GroupState, SegmentRow, StreamOffsets, TableState
from ingest.metadata.sql_base import SqlBase, raise_version
from ingest.metadata.sql_groups import load_groups
from ingest.metadata.sql_rows import segment_of
from ingest.metadata.sql_streams import load_offsets

MARKED_AT_ONCE = 500
"""Ids per statement: far below the number of parameters any database takes."""


class SqlTables(SqlBase):
    """Snapshots, pages and marks."""

    def datasources(self) -> list[str]:
        return sorted(self.table_versions())

    def table_versions(self) -> dict[str, int]:
        query = sa.select(t.datasources).order_by(t.datasources.c.datasource)
        versions = self._read(lambda connection: {row.datasource: row.version for row in connection.execute(query)})
        self.session.marks.note_versions(versions)
        return versions

    def table(self, datasource: str, since: int | None) -> TableState | None:
        def table(connection: Connection) -> TableState | None:
            query = sa.select(t.datasources.c.version).where(t.datasources.c.datasource == datasource)
            version = connection.execute(query).scalar()
            if version is None:
                return None
            segments, removed = _difference(connection, datasource, since)
            streams = _streams(connection, datasource)
            own = t.supervisors.c
            rows = connection.execute(
                sa.select(own.supervisor, own.version).where(own.datasource == datasource).order_by(own.supervisor)
            )
            versions = {row.supervisor: row.version for row in rows}
            names = sorted({stream.supervisor for stream in streams} | versions.keys())
            groups = load_groups(connection, names)
            specs = _specs(connection, versions, groups)
            return TableState(datasource, version, segments, removed, streams, tuple(groups), specs)

        state = self._read(table)
        if state is not None:
            self.session.marks.note_versions({datasource: state.version})
        return state

    def segments(self, datasource: str, after_id: str | None, limit: int, include_unused: bool) -> list[SegmentRow]:
        s, v = t.segments.c, t.segment_visibility.c
        query = _segments_with_visibility().where(s.datasource == datasource)
        if after_id is not None:
            query = query.where(s.segment_id > after_id)
        if include_unused:
            later = t.segment_visibility.alias("later")
            newest = sa.select(sa.func.max(later.c.added)).where(later.c.segment_id == s.segment_id)
            query = query.where(v.added == newest.scalar_subquery())
        else:
            query = query.where(v.removed.is_(None))
        query = query.order_by(s.segment_id).limit(limit)
        return self._read(lambda connection: [segment_of(row) for row in connection.execute(query)])

    def mark_segments(
        self, generation: int, datasource: str, segment_ids: Sequence[str], used: bool, now_ms: int
    ) -> int:
        def mark(connection: Connection) -> int:
            expected, becomes = ("unused", "published") if used else ("published", "unused")
            found = [
                name
                for chunk in _chunks(sorted(set(segment_ids)))
                for name in connection.execute(_in_state(datasource, chunk, expected)).scalars()
            ]
            if not found:
                return 0
            for chunk in _chunks(found):
                mine = t.segments.c.segment_id.in_(chunk)
                connection.execute(sa.update(t.segments).where(mine).values(state=becomes))
            _mark(connection, datasource, found, used)
            return len(found)

        return self._fenced(generation, mark)


def _chunks(names: Sequence[str]) -> Iterator[Sequence[str]]:
    return (names[i : i + MARKED_AT_ONCE] for i in range(0, len(names), MARKED_AT_ONCE))


def _in_state(datasource: str, names: Sequence[str], state: str) -> Any:
    columns = t.segments.c
    mine = sa.and_(columns.segment_id.in_(names), columns.datasource == datasource, columns.state == state)
    return sa.select(columns.segment_id).where(mine).order_by(columns.segment_id).with_for_update(key_share=True)


def _mark(connection: Connection, datasource: str, names: Sequence[str], used: bool) -> None:
    """Moves visibility at a new version, whose row is the last lock."""
    version = raise_version(connection, datasource)
    columns = t.segment_visibility.c
    for chunk in _chunks(names):
        if used:
            rows = [{"segment_id": name, "added": version, "datasource": datasource} for name in chunk]
            connection.execute(sa.insert(t.segment_visibility), rows)
        else:
            mine = sa.and_(columns.segment_id.in_(chunk), columns.removed.is_(None))
            connection.execute(sa.update(t.segment_visibility).where(mine).values(removed=version))


def _segments_with_visibility() -> Any:
    s, v = t.segments, t.segment_visibility
    columns = (s.c.segment_id, s.c.payload, s.c.state, s.c.published_ms, v.c.added, v.c.removed)
    return sa.select(*columns).join(v, v.c.segment_id == s.c.segment_id)


def _difference(
    connection: Connection, datasource: str, since: int | None
) -> tuple[tuple[SegmentRow, ...], tuple[str, ...]]:
    """Visible segments (all, or added after ``since``), and ids that went after ``since``."""
    v = t.segment_visibility.c
    visible = _segments_with_visibility().where(v.datasource == datasource, v.removed.is_(None))
    if since is not None:
        visible = visible.where(v.added > since)
    rows = connection.execute(visible.order_by(t.segments.c.segment_id))
    added = tuple(segment_of(row) for row in rows)
    if since is None:
        return added, ()
    gone = sa.select(v.segment_id).distinct().where(v.datasource == datasource, v.removed > since)
    back = {str(row.segment.id) for row in added}
    removed = connection.execute(gone.order_by(v.segment_id)).scalars()
    return added, tuple(name for name in removed if name not in back)


def _streams(connection: Connection, datasource: str) -> tuple[StreamOffsets, ...]:
    columns = t.streams.c
    query = sa.select(columns.supervisor, columns.topic).where(columns.datasource == datasource)
    keys = connection.execute(query.order_by(columns.supervisor, columns.topic)).all()
    loaded = (load_offsets(connection, row.supervisor, row.topic) for row in keys)
    return tuple(stream for stream in loaded if stream is not None)


def _specs(
    connection: Connection, newest: dict[str, int], groups: Sequence[GroupState]
) -> dict[str, dict[int, dict[str, Any]]]:
    """Specs of the supervisors by version: the newest, and those that unpublished sequences follow."""
    wanted = {name: {version} for name, version in newest.items()}
    for group in groups:
        if group.supervisor in wanted:
            wanted[group.supervisor].update(record.spec_version for record in group.sequences)
    columns = t.supervisor_specs.c
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for name, versions in wanted.items():
        query = sa.select(columns.version, columns.spec).where(
            columns.supervisor == name, columns.version.in_(sorted(versions))
        )
        rows = connection.execute(query.order_by(columns.version))
        found[name] = {row.version: row.spec for row in rows if row.spec is not None}
    return found
