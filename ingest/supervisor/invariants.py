"""What must hold between the groups of one supervisor after every event (pure)."""

from __future__ import annotations

from collections.abc import Mapping

from ingest.offsets import OffsetMap
from ingest.protocol import SequenceRecord
from ingest.supervisor.state import Group


def check_groups(groups: Mapping[int, Group]) -> None:
    """Asserts every rule below; a failure is a fault of the program and ends the supervisor."""
    owners: dict[int, int] = {}
    for group in groups.values():
        check_sequences(group.in_order())
        if group.open is None:
            continue
        for partition in group.partitions:
            assert partition not in owners, f"groups {owners[partition]} and {group.epoch} both read {partition} (CK-3)"
            owners[partition] = group.epoch


def check_sequences(records: tuple[SequenceRecord, ...]) -> None:
    """Each starts where the unpublished one before it ends (numbers in between were closed empty), no
    end is below its start, only the last is open (CK-1)."""
    before: SequenceRecord | None = None
    for record in records:
        if before is not None:
            assert before.end is not None, f"{before.ref.name} is open, but {record.ref.name} follows it (CK-1)"
            assert record.start == before.end, f"{record.ref.name} does not start where {before.ref.name} ends (CK-1)"
        check_range(record.start, record.end)
        before = record


def check_range(start: OffsetMap, end: OffsetMap | None) -> None:
    """An end names the start's partitions and lies nowhere below it (PR-10)."""
    if end is not None:
        assert list(end) == list(start), f"{start} and {end} name different partitions"
        assert end.reached(start), f"end {end} is below start {start} (PR-10)"
