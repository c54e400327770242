"""Audits one table whole: ledger against offsets, segments against ledger, files against segments.

Reads the metadata database and deep storage, changes nothing. Each file is pulled to a scratch
directory and removed again, one at a time. May run beside a working service: what is published
meanwhile is left out, because everything is read from one snapshot first.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ingest.metadata.records import AuditRow, LedgerRow, QuarantineRow, SegmentRow
from ingest.metadata.replay_rules import EXPIRED
from ingest.metadata.store import MetadataStore
from segments.errors import ServiceError
from segments.parquet.reader import verify_file
from segments.storage.base import DeepStorage
from segments.storage.layout import table_folder
from server.audit.chain import chain_faults
from server.audit.replays import replay_faults

PAGE = 10_000
Progress = Callable[[str, int, int], None]


@dataclass(slots=True)
class Report:
    """``faults`` is empty iff the table is proved; ``checked`` counts what was looked at."""

    table: str
    faults: list[str] = field(default_factory=list)
    checked: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        return {"table": self.table, "exact": not self.faults, "faults": self.faults, "checked": self.checked}


def audit_table(
    store: MetadataStore, storage: DeepStorage, table: str, scratch: Path | None, progress: Progress | None = None
) -> Report:
    """The whole audit.

    Raises:
        ServiceError: no such table, or the database or deep storage is out of reach (a missing or
            broken file is a fault, not an error).
    """
    state = store.table(table, None)
    if state is None:
        raise ServiceError(f"there is no table {table!r}; `siltstone segments list` names those that exist")
    report = Report(table)
    # A supervisor whose topic was changed has several streams, and one ledger.
    names = sorted({stream.supervisor for stream in state.streams})
    by_name = {name: [row for row in _ledger(store, name) if row.version <= state.version] for name in names}
    ledger = [row for name in names for row in by_name[name]]
    for stream in state.streams:
        rows, audits = by_name[stream.supervisor], _audits(store, stream.supervisor)
        # A replay's records lie in ranges that were published before.
        chain = [row for row in rows if row.topic == stream.topic and row.replayed_path is None]
        report.faults += chain_faults(stream, chain, audits, store.places(stream.supervisor, stream.topic))
        report.checked["partitions"] = report.checked.get("partitions", 0) + len(stream.committed)
    segments = [row for row in _segments(store, table) if row.added <= state.version and row.state != "deleting"]
    quarantined = {row.path: row for row in _quarantined(store, table)}
    report.checked |= {"ranges": len(ledger), "segments": len(segments)}
    report.checked["rows"] = sum(row.segment.rows for row in segments if row.removed is None)
    report.checked["replays"] = sum(row.replayed_path is not None for row in ledger)
    report.faults += _ledger_faults(ledger, segments, quarantined)
    report.faults += replay_faults(ledger, quarantined)
    report.faults += _file_faults(segments, storage, scratch, progress)
    report.faults += _stray_files(store, storage, table, segments, quarantined)
    return report


def _ledger(store: MetadataStore, supervisor: str) -> Iterator[LedgerRow]:
    after = 0
    while page := store.ledger(supervisor, after, PAGE):
        yield from page
        after = page[-1].version


def _audits(store: MetadataStore, supervisor: str) -> list[AuditRow]:
    found: list[AuditRow] = []
    while page := store.audit(supervisor, PAGE, len(found)):
        found += page
    return found


def _quarantined(store: MetadataStore, table: str) -> Iterator[QuarantineRow]:
    before: str | None = None
    while page := store.quarantine_files(table, PAGE, before):
        yield from page
        before = page[-1].path


def _segments(store: MetadataStore, table: str) -> Iterator[SegmentRow]:
    after: str | None = None
    while page := store.segments(table, after, PAGE, include_unused=True):
        yield from page
        after = str(page[-1].segment.id)


def _ledger_faults(
    ledger: list[LedgerRow], segments: list[SegmentRow], quarantined: dict[str, QuarantineRow]
) -> Iterator[str]:
    by_id = {str(row.segment.id): row for row in segments}
    owner: dict[str, LedgerRow] = {}
    for entry in ledger:
        stored = 0
        for segment_id in entry.segment_ids:
            if segment_id in owner:
                yield f"{segment_id}: published by {owner[segment_id].ref.name} and by {entry.ref.name}"
            owner[segment_id] = entry
            row = by_id.get(segment_id)
            if row is None:
                yield f"{segment_id}: published by {entry.ref.name}, but its row is gone"
                continue
            stored += row.segment.rows
            expected = {(p, start, entry.end[p]) for p, start in entry.start.items()}
            if set(row.segment.offsets) != expected:
                yield f"{segment_id}: its offsets {sorted(row.segment.offsets)} are not those of {entry.ref.name}"
        if stored != entry.rows_stored and all(name in by_id for name in entry.segment_ids):
            yield f"{entry.ref.name}: the ledger says {entry.rows_stored} rows, its segments hold {stored}"
        rejected = sum(counts.unparseable for counts in entry.counts.values())
        if rejected and entry.quarantine_path not in quarantined:
            yield f"{entry.ref.name}: {rejected} unparseable records, but no quarantine file"
    for segment_id in sorted(set(by_id) - set(owner)):
        yield f"{segment_id}: visible, but no ledger row published it"


def _file_faults(
    segments: list[SegmentRow], storage: DeepStorage, scratch: Path | None, progress: Progress | None
) -> Iterator[str]:
    with tempfile.TemporaryDirectory(dir=scratch, prefix="verify-") as folder:
        local = Path(folder) / "segment.parquet"
        for done, row in enumerate(segments):
            if progress is not None:
                progress("segment files", done, len(segments))
            try:
                storage.pull(row.segment.load_spec, local)
                proof = verify_file(local)
            except ServiceError as error:
                yield f"{row.segment.id}: {error}"
                continue
            for what, found, told in (
                ("identifier", str(proof.footer.meta.id), str(row.segment.id)),
                ("rows", proof.footer.rows, row.segment.rows),
                ("checksum", proof.checksum, row.segment.checksum),
                ("offsets", sorted(proof.footer.meta.offsets), sorted(row.segment.offsets)),
                ("size", proof.size_bytes, row.segment.size_bytes),
            ):
                if found != told:
                    yield f"{row.segment.id}: the file's {what} is {found}, the database says {told}"
            local.unlink(missing_ok=True)


def _stray_files(
    store: MetadataStore,
    storage: DeepStorage,
    table: str,
    segments: list[SegmentRow],
    quarantined: dict[str, QuarantineRow],
) -> Iterator[str]:
    """Files below the table's prefix that no row names: neither published, nor staged, nor being deleted."""
    quarantined = {path: row for path, row in quarantined.items() if row.state != EXPIRED}
    known = {str(row.segment.load_spec) for row in segments} | {str(row.load_spec) for row in quarantined.values()}
    strays = [stored for stored in storage.list(table_folder(table)) if str(stored.load_spec) not in known]
    if strays:
        # Read after the files were listed, unfinished before published: a file on its way is in one of them.
        tracked = store.tracked_paths(table)
        known |= {str(row.segment.load_spec) for row in _segments(store, table)}
        known |= {str(row.load_spec) for row in _quarantined(store, table)}
        for stored in strays:
            named = stored.key in tracked or str(stored.load_spec) in known
            if not named and storage.exists(stored.load_spec):
                yield f"{stored.key}: a file of {stored.size_bytes} bytes that no row names"
    for row in quarantined.values():
        if not storage.exists(row.load_spec):
            yield f"{row.path}: the quarantine file of {row.ref.name} is missing"
