"""What a query node and a task say to each other about rows not yet published (pure data).

A task's live rows are immutable, numbered chunks (Arrow record batches, later replaced by spill
files). A query at table version V sends the committed offset vector of V; the vector alone decides
which sequences are live (PR-1): those whose start is at or past it. The answer lists chunks; the
node fetches those it has not mirrored yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

PartitionRange = tuple[int, int, int]
"""(partition, start, end): a half-open offset range."""


@dataclass(frozen=True, slots=True)
class LiveAsk:
    """``vector`` and ``epochs`` are committed offsets and reset epochs of the group's partitions at ``version``."""

    version: int
    group: int
    vector: dict[int, int]
    epochs: dict[int, int]


class LiveStatus(Enum):
    """How a task answered."""

    OK = "ok"
    TOO_OLD = "too_old"  # sequences needed at that version are already dropped: ask at a newer V (PR-6)
    NOT_THERE = "not_there"  # the task starts past the vector, or is not restored yet: ask another replica
    EPOCH = "epoch"  # a reset the node or the task has not seen yet


@dataclass(frozen=True, slots=True)
class ChunkInfo:
    """One immutable chunk, named by (attempt token, number); of one sequence and one spec version.

    ``path`` is set for a spill: an Arrow IPC file on the task's host that a node on the same host
    may hard-link. ``replaces`` are the numbers of the chunks a spill took the place of.
    """

    number: int
    sequence: int
    rows: int
    size_bytes: int
    ranges: tuple[PartitionRange, ...]
    min_time_ms: int
    max_time_ms: int
    path: str | None = None
    replaces: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LiveSequence:
    """One unpublished (or published but not yet acknowledged) sequence as the task holds it.

    ``position`` is how far the listed chunks reach; ``end`` the saved end when sealed.
    """

    number: int
    spec_version: int
    start: dict[int, int]
    position: dict[int, int]
    end: dict[int, int] | None
    chunks: tuple[ChunkInfo, ...]


@dataclass(frozen=True, slots=True)
class LiveAnswer:
    """One task's complete answer for its group: atomic, in sequence order."""

    status: LiveStatus
    token: str
    group: int
    sequences: tuple[LiveSequence, ...] = ()
    detail: str = ""
