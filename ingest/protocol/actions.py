"""What a task tells and asks of its overlord while it reads (pure data)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ingest.offsets import OffsetMap
from ingest.protocol.sequences import PROTOCOL_VERSION, SequenceRecord, SequenceRef


@dataclass(frozen=True, slots=True)
class TaskHello:
    """A task's first words: where it can be reached. ``token`` proves the attempt."""

    token: str
    address: str
    pid: int
    protocol: int = PROTOCOL_VERSION


@dataclass(frozen=True, slots=True)
class TaskWelcome:
    """The store's view of the group when the attempt registered (fresher than its TaskSpec)."""

    generation: int
    sequences: tuple[SequenceRecord, ...]
    specs: dict[int, dict[str, Any]]
    committer: bool


@dataclass(frozen=True, slots=True)
class TaskHeartbeat:
    """At most a second apart (PR-7): what the task has read, holds and is doing.

    ``positions`` belong to the open sequence ``sequence``; ``behind`` says that an earlier one is not
    read to its saved end yet, so that they prove nothing about its rows; ``read`` is where it reads on, per
    partition, over all sequences (None from a task of an older version). ``status`` is a word for people
    (reading, cannot_read with its reason in ``detail``, paused, back_pressure, publishing, stopping).
    ``counters`` are totals since the attempt started (processed, processedWithError, thrownAway,
    unparseable, ...).
    ``parse_exceptions`` are the bad messages of each sequence held and not yet published, by number (PR-16).
    ``published_version`` is the furthest version of ``table`` that a publish it knows of was given: a database
    below it was replaced by an older copy.
    """

    token: str
    sequence: int
    positions: OffsetMap
    status: str
    paused_since_ms: int | None
    unpublished_rows: int
    unpublished_bytes: int
    pending_publishes: int
    counters: dict[str, int]
    lag: OffsetMap | None = None
    detail: str | None = None
    parse_errors: tuple[dict[str, Any], ...] = ()
    behind: bool = False
    read: OffsetMap | None = None
    parse_exceptions: dict[int, int] = field(default_factory=dict)
    table: str = ""
    published_version: int = 0


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    """``served_version`` is the lowest table version every live query node has acknowledged (PR-6);
    the task may drop published sequences whose publish version is not above it."""

    generation: int
    served_version: int
    committer: bool


@dataclass(frozen=True, slots=True)
class CheckpointAsk:
    """A task's wish to end its open sequence; it has cut its buffers at ``positions`` and is paused.

    ``reason``: rows, total_rows, bytes, period, disk, stop. ``parse_exceptions``: of this sequence.
    """

    token: str
    ref: SequenceRef
    positions: OffsetMap
    reason: str
    parse_exceptions: int = 0


@dataclass(frozen=True, slots=True)
class CheckpointAnswer:
    """``sequences`` is empty while the round goes on (the end will be told); otherwise the saved
    records from the asked one on, also long after the publish, from the ledger. ``specs``: those they
    were opened under, by version, so that the task can go on at once."""

    generation: int
    sequences: tuple[SequenceRecord, ...]
    specs: dict[int, dict[str, Any]] = field(default_factory=dict)
