"""The part of the metadata store that gives quarantined records another chance, and gives old ones up.

Every quarantined record is at every instant in exactly one place: waiting in one file of state ``published``, or
counted by the ledger row of the replay that took its file. One transaction moves all records of a file: its row
turns ``replayed``, the segments become visible, what is bad again waits in a new file, a ledger row counts it all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ingest.metadata.records import AuditRow, QuarantineRow, QuarantineTotals, ReplayRecord
from ingest.protocol import PendingSegment, PublishReply, PublishRequest, StagedFile


class ReplayStore(Protocol):
    """As ``ingest.metadata.store`` promises: atomic, fenced, versioned, never reused."""

    def begin_replay(self, generation: int, datasource: str, path: str, token: str, now_ms: int) -> ReplayRecord | None:
        """A new try at a file's records under its supervisor's newest spec and a new group epoch. Earlier tries that
        did not publish end, and their files go to the sweeper. None where the file does not wait (any more).

        Raises:
            StoreConflict: the supervisor is unknown, or fills another table now.
        """
        ...

    def allocate_replayed(self, generation: int, token: str, start_ms: int, end_ms: int, now_ms: int) -> PendingSegment:
        """``allocate`` of a begun replay. AttemptRefused when it ended."""
        ...

    def stage_replayed(self, generation: int, token: str, files: Sequence[StagedFile], now_ms: int) -> None:
        """``stage`` of a begun replay. AttemptRefused when it ended."""
        ...

    def publish_replay(self, generation: int, request: PublishRequest, now_ms: int) -> PublishReply:
        """Ingests the file's records: see the module. Answers as ``publish`` does: PUBLISHED, ALREADY (the ledger row
        exists), FENCED (the replay ended or another generation leads its file), CONFLICT (the file waits no more),
        RESTAGE. ``request.start`` to ``end`` span the records; no offset moves."""
        ...

    def end_replays(self, generation: int, token: str | None) -> int:
        """Ends a begun replay, or (None) all of other generations; their files go to the sweeper. How many ended."""
        ...

    def quarantine_files(self, datasource: str, limit: int, before: str | None = None) -> list[QuarantineRow]:
        """Newest first; with ``before`` only those older than the file of that path, none if it is unknown."""
        ...

    def quarantine_file(self, datasource: str, path: str) -> QuarantineRow | None: ...

    def unexpired_quarantine(self, datasource: str, limit: int) -> list[QuarantineRow]:
        """Files that are still there, oldest first."""
        ...

    def database_ms(self) -> int | None:
        """The clock of the database's own server, ms UTC; None where it has none but ours."""
        ...

    def quarantine_totals(self) -> dict[tuple[str, str], QuarantineTotals]:
        """By table and state."""
        ...

    def expire_quarantine(
        self, generation: int, datasource: str, paths: Sequence[str], audit: AuditRow
    ) -> tuple[str, ...]:
        """Gives files up: they turn ``expired`` and go to the sweeper, with one audit row if any does. Which did."""
        ...
