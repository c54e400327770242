"""When a supervisor's spec becomes another version, and what is counted per version (pure)."""

from __future__ import annotations

from typing import Any

from ingest.metadata.records import DesiredState, SpecGuard, SupervisorRecord
from ingest.metadata.store import StoreConflict


def check_same_table(old: SupervisorRecord | None, datasource: str) -> None:
    """Refuses another table for a known supervisor: its offsets would go on where the old rows end."""
    if old is not None and old.datasource != datasource:
        raise StoreConflict(
            f"supervisor {old.supervisor!r} writes table {old.datasource!r}, not {datasource!r};"
            " give the new one another id"
        )


def check_version(supervisor: str, stored: int | None, version: int) -> None:
    """Refuses what was decided under a spec that is no longer the stored one: offsets would be taken in a topic, or
    from starts, that an operator has just corrected."""
    if stored is not None and stored != version:
        raise StoreConflict(
            f"supervisor {supervisor!r} has version {stored} of its spec by now; this was decided under {version}"
        )


def check_guard(supervisor: str, guard: SpecGuard, groups: bool, offsets: bool) -> None:
    """Refuses a spec whose judgement no longer holds. ``groups``: some have unpublished sequences; ``offsets``: those
    of ``guard.unread`` are stored."""
    if guard.idle and groups:
        raise StoreConflict(f"tasks of supervisor {supervisor!r} began to read while its new spec was judged")
    if guard.unread is not None and offsets:
        raise StoreConflict(f"offsets of topic {guard.unread!r} were stored while its new spec was judged")


def goes_on(old: SupervisorRecord, spec: dict[str, Any], desired: DesiredState) -> bool:
    """Whether a posted spec is the present one, posted again, and no start after a suspension (PR-16)."""
    started = old.desired is DesiredState.SUSPENDED and desired is DesiredState.RUNNING
    return old.desired is not DesiredState.TERMINATED and old.spec == spec and not started


def exceptions_counter(supervisor: str, spec_version: int) -> tuple[str, str]:
    """Kind and name of the counter of bad messages published under one version of a spec (PR-16)."""
    return "parse_exceptions", f"{supervisor}/{spec_version}"
