"""What a change of lookups may do, for every implementation of the store (pure)."""

from __future__ import annotations

from typing import Any

from ingest.metadata.records import AuditRow, LookupChange
from ingest.metadata.store import StoreConflict

COUNTER = ("lookups", "")
"""The counter that numbers the changes."""


def check_replaces(tier: str, name: str, old: dict[str, Any] | None, new: dict[str, Any]) -> None:
    """Raises StoreConflict unless ``new`` may take the place of ``old``: the same again, or of a higher version."""
    if old is None or old == new:
        return
    had, wants = old.get("version"), new.get("version")
    if had is None or (wants is not None and str(wants) > str(had)):
        return
    raise StoreConflict(
        f"lookup {name!r} of tier {tier!r} has version {had!r} already; post the new content with a version that sorts"
        f" after it (found {wants!r})"
    )


def audit_of_change(change: LookupChange, now_ms: int) -> AuditRow:
    """The line of audit that a change leaves; contents are not repeated in it."""
    put = {
        tier: {name: container.get("version") for name, container in lookups.items()}
        for tier, lookups in change.put.items()
    }
    removed = [f"{tier}/{name}" for tier, name in change.removed]
    detail = {"author": change.author, "comment": change.comment, "put": put, "removed": removed}
    return AuditRow(now_ms, "", "lookups_changed", detail)
