"""The part of the metadata store that holds lookups; the promises of ``ingest.metadata.store`` hold here too."""

from __future__ import annotations

from typing import Protocol

from ingest.metadata.records import LookupChange, LookupTiers


class LookupStore(Protocol):
    """Lookups as they were posted. Nothing of the protocol depends on them: any process may change them."""

    def lookups(self, since: int | None) -> LookupTiers | None:
        """All of them; None when nothing changed after the change ``since`` (None: when nobody ever posted any)."""
        ...

    def change_lookups(self, change: LookupChange, now_ms: int) -> int:
        """All of a change or nothing, with a line of audit. Returns the number of the change.

        Raises StoreConflict when one that is there has another content and no lower version (Druid's rule).
        Removing what is not there is no error.
        """
        ...
