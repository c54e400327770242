"""`verify` over a really published table: it is proved whole, and every kind of damage is found and named."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

import server.audit.table as table_audit
from ingest.metadata.records import AuditRow, LedgerRow, SegmentRow
from ingest.metadata.store import MetadataStore
from ingest.offsets import OffsetMap
from segments.errors import ServiceError
from segments.storage.local import LocalDeepStorage
from server.audit.table import Report, audit_table
from tests.in_process import System, click, eventually, spec


class Published:
    """A table of several ranges and segments, one malformed record among its records."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "deep"
        self.folder.mkdir()
        self.system = System(root / "tasks")
        self.system.storage = LocalDeepStorage(self.folder)  # type: ignore[assignment]
        self.system.overlord = self.system.new_overlord("overlord-1")
        self.system.stream.create_topic("clicks", 2)
        self.system.start()
        self.system.overlord.submit(spec(maxRowsPerSegment=100))
        for partition in range(2):
            self.system.stream.append("clicks", partition, [*(click(n) for n in range(150)), b"{broken"])
        eventually(lambda: self.system.records_read() == 302)
        self.system.overlord.suspend("clicks")
        eventually(lambda: self.system.rows_published() == 300)
        eventually(lambda: not self.system.tasks())
        self.system.stop()

    def audit(self, folder: Path, **answers: Callable[..., Any]) -> Report:
        store = Damaged(self.system.store, answers)
        return audit_table(cast(MetadataStore, store), LocalDeepStorage(folder), "clicks", None)


class Damaged:
    """A store of which some methods answer otherwise."""

    def __init__(self, store: MetadataStore, answers: dict[str, Callable[..., Any]]) -> None:
        self._store = store
        self._answers = answers

    def __getattr__(self, name: str) -> Any:
        true = getattr(self._store, name)
        if name not in self._answers:
            return true
        return lambda *words, **named: self._answers[name](true(*words, **named))


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Published]:
    yield Published(tmp_path_factory.mktemp("published"))


@pytest.fixture
def folder(published: Published, tmp_path: Path) -> Path:
    """A copy of deep storage that a test may damage."""
    return Path(shutil.copytree(published.folder, tmp_path / "deep"))


def segment_files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*.parquet")) if "quarantine" not in str(path)]


def test_a_table_that_was_published_by_the_rules_is_exact(published: Published, folder: Path) -> None:
    report = published.audit(folder)
    assert report.faults == []
    assert report.checked["rows"] == 300 and report.checked["ranges"] >= 3 and report.checked["partitions"] == 2
    assert report.to_json()["exact"] is True


def test_a_table_with_more_rows_than_a_page_is_as_exact(
    published: Published, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = len(published.system.store.quarantine_files("clicks", 100))
    assert files > 1, "one page would hold them all"
    monkeypatch.setattr(table_audit, "PAGE", 1)
    assert published.audit(folder).faults == []


def test_every_row_of_the_trail_is_read_however_many_pages_it_has(
    published: Published, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trail = [AuditRow(at, "clicks", "reset", {"at": at}) for at in range(5)]
    published.system.store.state.audit.extend(trail)
    read: list[AuditRow] = []
    monkeypatch.setattr(table_audit, "PAGE", 2)

    def reading(stream: Any, chain: Any, audits: list[AuditRow], *others: Any) -> tuple[()]:
        read.extend(audits)
        return ()

    monkeypatch.setattr(table_audit, "chain_faults", reading)
    assert published.audit(folder).faults == []
    assert [row for row in read if row in trail] == trail[::-1]


def test_an_unknown_table_is_an_error_not_a_proof(published: Published, folder: Path) -> None:
    with pytest.raises(ServiceError, match="no table 'nothing'"):
        audit_table(published.system.store, LocalDeepStorage(folder), "nothing", None)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(bytes(content))


FILES: dict[str, Callable[[list[Path]], object]] = {
    "a flipped byte": lambda files: flip(files[0]),
    "a file cut short": lambda files: files[0].write_bytes(files[0].read_bytes()[:-100]),
    "a missing file": lambda files: files[0].unlink(),
    "an empty file": lambda files: files[0].write_bytes(b""),
    "another segment's file": lambda files: shutil.copyfile(files[1], files[0]),
    "a file that nobody knows": lambda files: shutil.copyfile(files[0], files[0].with_name("stray.parquet")),
}


@pytest.mark.parametrize("damage", FILES)
def test_damage_to_files_is_found(published: Published, folder: Path, damage: str) -> None:
    FILES[damage](segment_files(folder))
    faults = published.audit(folder).faults
    assert faults, damage
    assert any("clicks" in fault for fault in faults)


def test_a_missing_quarantine_file_is_found(published: Published, folder: Path) -> None:
    kept = published.system.store.quarantine_files("clicks", 10)
    assert kept, "the malformed records are kept"
    (folder / kept[0].path).unlink()
    assert [fault for fault in published.audit(folder).faults if "quarantine" in fault]


def first_segment(**changes: Any) -> Callable[[list[SegmentRow]], list[SegmentRow]]:
    def changed(rows: list[SegmentRow]) -> list[SegmentRow]:
        if not rows:
            return rows
        return [replace(rows[0], segment=replace(rows[0].segment, **changes)), *rows[1:]]

    return changed


def first_range(**changes: Any) -> Callable[[list[LedgerRow]], list[LedgerRow]]:
    return lambda rows: [replace(rows[0], **changes), *rows[1:]] if rows else rows


ROWS: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "a row count": ("segments", first_segment(rows=7), "rows"),
    "a checksum": ("segments", first_segment(checksum="00"), "checksum"),
    "a size": ("segments", first_segment(size_bytes=1), "size"),
    "a segment's offsets": ("segments", first_segment(offsets=()), "offsets"),
    "a segment row that is gone": ("segments", lambda rows: rows[1:] if rows else rows, "its row is gone"),
    "a ledger row that is gone": ("ledger", lambda rows: rows[1:], "no ledger row published it"),
    "a ledger row's rows": ("ledger", first_range(rows_stored=1), "the ledger says 1 rows"),
    "a ledger row's counts": ("ledger", first_range(counts={}), "were counted"),
    "a range that begins too late": ("ledger", first_range(start=OffsetMap({0: 5, 1: 0})), "are not those of"),
    "a quarantine row that is gone": ("quarantine_files", lambda rows: rows[:0], "no quarantine file"),
}


@pytest.mark.parametrize("damage", ROWS)
def test_damage_to_rows_is_found(published: Published, folder: Path, damage: str) -> None:
    method, change, said = ROWS[damage]
    faults = published.audit(folder, **{method: change}).faults
    assert any(said in fault for fault in faults), faults


def test_committed_offsets_that_no_range_reaches_are_found(published: Published, folder: Path) -> None:
    def further(state: Any) -> Any:
        streams = [
            replace(each, committed=OffsetMap({p: o + 1 for p, o in each.committed.items()})) for each in state.streams
        ]
        return replace(state, streams=tuple(streams))

    assert any(
        "committed offset" in fault or "epoch" in fault for fault in published.audit(folder, table=further).faults
    )
