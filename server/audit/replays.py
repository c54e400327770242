"""Judges replays of the quarantine: each file's records counted once, what is bad again kept once more (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ingest.metadata.records import LedgerRow, QuarantineRow
from ingest.metadata.replay_rules import REPLAYED


def replay_faults(ledger: Sequence[LedgerRow], quarantined: Mapping[str, QuarantineRow]) -> Iterator[str]:
    """Every fault. ``ledger`` is of one table, ``quarantined`` all of its files by path, read after it."""
    replays: dict[str, LedgerRow] = {}
    for row in ledger:
        if row.replayed_path is None:
            continue
        if row.replayed_path in replays:
            yield f"{row.replayed_path}: replayed by {replays[row.replayed_path].ref.name} and by {row.ref.name}"
        replays[row.replayed_path] = row
        yield from _count_faults(row, quarantined)
    names = {row.ref.name for row in ledger}
    for path, file in quarantined.items():
        # Only of a replay that the ledger was read with can be said what it counts.
        if file.state == REPLAYED and path not in replays and file.replayed_by in names:
            yield f"{path}: said to be replayed by {file.replayed_by}, whose ledger row counts another file"


def _count_faults(row: LedgerRow, quarantined: Mapping[str, QuarantineRow]) -> Iterator[str]:
    file = quarantined.get(str(row.replayed_path))
    if file is None:
        yield f"{row.ref.name}: it replayed {row.replayed_path}, which no quarantine row names"
        return
    counted = sum(counts.messages for counts in row.counts.values())
    if counted != file.rows:
        yield f"{row.ref.name}: {counted} messages were counted, {file.path} holds {file.rows}"
    again = quarantined.get(str(row.quarantine_path))
    bad = sum(counts.unparseable for counts in row.counts.values())
    if row.quarantine_path is not None and (again is None or again.rows < bad):
        yield f"{row.ref.name}: {bad} records are bad again, {row.quarantine_path} does not hold them"
