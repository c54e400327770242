"""The ports of the query side: what is visible at a version, and where live rows can be asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from segments.data_segment import DataSegment
from segments.live import ChunkInfo, LiveAnswer, LiveAsk
from segments.schema import SegmentSchema


@dataclass(frozen=True, slots=True)
class RequiredSequence:
    """An unpublished sequence that was ever assigned: an answer for it is required (PR-7).

    ``reported`` is the furthest position any attempt made durable for it (its start if none);
    ``end`` its saved end when sealed, to which an answer must reach.
    """

    supervisor: str
    group: int
    number: int
    spec_version: int
    start: dict[int, int]
    epochs: dict[int, int]
    end: dict[int, int] | None
    reported: dict[int, int]


@dataclass(frozen=True, slots=True)
class LiveAttempt:
    """A running replica: where to ask for a group's live rows. ``token`` authorises the call."""

    supervisor: str
    group: int
    token: str
    address: str
    committer: bool


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """One table in one database snapshot (PR-2).

    ``segments`` are all visible ones when ``since`` was None, else empty with the difference in
    ``added`` / ``removed`` (ids). ``committed`` and ``epochs`` are keyed by supervisor, then partition.
    """

    datasource: str
    version: int
    schema: SegmentSchema
    segments: tuple[DataSegment, ...]
    added: tuple[DataSegment, ...]
    removed: tuple[str, ...]
    committed: dict[str, dict[int, int]]
    epochs: dict[str, dict[int, int]]
    required: tuple[RequiredSequence, ...]
    attempts: tuple[LiveAttempt, ...]


class SegmentCatalog(Protocol):
    """The metadata database as a query node sees it; safe from any thread."""

    def versions(self) -> dict[str, int]:
        """All tables, those with segments or with a supervisor, and the version each is at."""
        ...

    def snapshot(self, datasource: str, since: int | None) -> TableSnapshot | None:
        """The table now; None when no such table. ``since``: a version already held."""
        ...

    def acknowledge(self, node: str, address: str, versions: dict[str, int]) -> None:
        """Renews the node's lease and records per table the lowest version it may still have to
        fetch for (PR-6)."""
        ...


class LiveSource(Protocol):
    """The tasks as a query node sees them; safe from any thread."""

    def ask(self, attempt: LiveAttempt, ask: LiveAsk, timeout_ms: int) -> LiveAnswer:
        """One small call: which chunks make up the answer.

        Raises:
            ServiceError: the task is out of reach, or is not that attempt any more.
        """
        ...

    def fetch(self, attempt: LiveAttempt, chunk: ChunkInfo, timeout_ms: int) -> bytes:
        """The chunk as one Arrow IPC stream."""
        ...
