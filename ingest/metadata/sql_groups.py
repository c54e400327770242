"""Reads the unfinished groups of supervisors: what must answer a query, and what a new leader takes over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ingest.metadata import tables as t
from ingest.metadata.records import GroupState
from ingest.metadata.sql_rows import attempt_of, sequence_of
from ingest.offsets import OffsetMap, furthest
from ingest.protocol import AttemptRecord, SequenceRecord

GroupKey = tuple[str, int]


def load_groups(connection: Connection, supervisors: Sequence[str]) -> list[GroupState]:
    """Groups with unpublished sequences or live attempts, by (supervisor, group)."""
    if not supervisors:
        return []
    sequences: dict[GroupKey, list[SequenceRecord]] = defaultdict(list)
    unpublished = sa.select(t.sequences).where(
        t.sequences.c.supervisor.in_(supervisors), sa.text("sequences.state IN ('open', 'sealed')")
    )
    for row in connection.execute(unpublished.order_by(t.sequences.c.number)):
        sequences[(row.supervisor, row.group_epoch)].append(sequence_of(row))
    attempts: dict[GroupKey, list[AttemptRecord]] = defaultdict(list)
    live = sa.select(t.attempts).where(t.attempts.c.supervisor.in_(supervisors), sa.text("attempts.ended_ms IS NULL"))
    for row in connection.execute(live.order_by(t.attempts.c.id)):
        attempts[(row.supervisor, row.group_epoch)].append(attempt_of(row))
    reported = _reported(connection, supervisors)
    return [
        GroupState(*key, partitions, tuple(sequences[key]), tuple(attempts[key]), reported.get(key, OffsetMap()))
        for key, partitions in _partitions(connection, sorted(sequences.keys() | attempts.keys())).items()
    ]


def _partitions(connection: Connection, keys: list[GroupKey]) -> dict[GroupKey, tuple[int, ...]]:
    """Partition sets of the groups, in the order of ``keys``."""
    columns = t.task_groups.c
    found: dict[GroupKey, tuple[int, ...]] = {}
    for supervisor in sorted({name for name, _ in keys}):
        epochs = [group for name, group in keys if name == supervisor]
        mine = sa.and_(columns.supervisor == supervisor, columns.group_epoch.in_(epochs))
        query = sa.select(columns.group_epoch, columns.partitions).where(mine)
        for row in connection.execute(query.order_by(columns.group_epoch)):
            found[(supervisor, row.group_epoch)] = tuple(row.partitions)
    return found


def _reported(connection: Connection, supervisors: Sequence[str]) -> dict[GroupKey, OffsetMap]:
    """Furthest positions in each open sequence, by attempts of whatever state (PR-7)."""
    a, s = t.attempts, t.sequences
    on = sa.and_(
        a.c.supervisor == s.c.supervisor, a.c.group_epoch == s.c.group_epoch, a.c.positions_sequence == s.c.number
    )
    query = sa.select(a.c.supervisor, a.c.group_epoch, a.c.positions).join(s, on)
    query = query.where(s.c.supervisor.in_(supervisors), sa.text("sequences.state IN ('open', 'sealed')"))
    reported: dict[GroupKey, OffsetMap] = {}
    for row in connection.execute(query.where(s.c.state == "open")):
        key = (row.supervisor, row.group_epoch)
        reported[key] = furthest(reported.get(key, OffsetMap()), row.positions)
    return reported
