"""What queries and operators see of the metadata store; the promises of ``ingest.metadata.store`` hold here too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ingest.metadata.records import SegmentRow, TableState


class TableStore(Protocol):
    """Tables and segments as queries and operators see them."""

    def datasources(self) -> list[str]: ...

    def table(self, datasource: str, since: int | None) -> TableState | None:
        """One consistent snapshot (PR-2); see ``TableState``."""
        ...

    def table_versions(self) -> dict[str, int]: ...

    def segments(self, datasource: str, after_id: str | None, limit: int, include_unused: bool) -> list[SegmentRow]:
        """Paged in id order."""
        ...

    def mark_segments(
        self, generation: int, datasource: str, segment_ids: Sequence[str], used: bool, now_ms: int
    ) -> int:
        """Unused: removed at a new version. Used reverses only an unused mark (PR-3). Returns how many changed."""
        ...
