"""The ledger's chain: an exact one has no fault, and each kind of damage is named."""

from dataclasses import replace

from ingest.metadata.records import AuditRow, LedgerRow, StreamOffsets
from ingest.offsets import OffsetMap
from ingest.protocol import PartitionCounts, Place, SequenceRef
from server.audit.chain import chain_faults


def row(number: int, start: int, end: int, epoch: int = 0, **changes: object) -> LedgerRow:
    made = LedgerRow(
        ref=SequenceRef("wiki", 0, number),
        topic="edits",
        start=OffsetMap({0: start}),
        end=OffsetMap({0: end}),
        epochs=OffsetMap({0: epoch}),
        counts={0: PartitionCounts(good=end - start)},
        rows_in=end - start,
        rows_stored=end - start,
        segment_ids=(),
        quarantine_path=None,
        spec_version=1,
        version=number + 1,
        published_ms=0,
        token="t",
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def stream(committed: int, epoch: int = 0, start: int = 0) -> StreamOffsets:
    return StreamOffsets("wiki", "edits", "id", OffsetMap({0: committed}), OffsetMap({0: epoch}), OffsetMap({0: start}))


def faults(offsets: StreamOffsets, *rows: LedgerRow, audits: tuple[AuditRow, ...] = ()) -> list[str]:
    return list(chain_faults(offsets, rows, audits))


RESET = AuditRow(5, "wiki", "reset", {"partitions": {"0": 40}})


def test_joined_ranges_up_to_the_committed_offset_are_exact() -> None:
    assert faults(stream(30), row(0, 0, 10), row(1, 10, 30)) == []
    assert faults(stream(0)) == []


def test_ranges_published_in_any_order_are_exact() -> None:
    assert faults(stream(30), row(1, 10, 30), row(0, 0, 10)) == []


def test_a_gap_an_overlap_and_a_short_end_are_named() -> None:
    assert any("in no range" in fault for fault in faults(stream(30), row(0, 0, 10), row(1, 12, 30)))
    assert any("in two ranges" in fault for fault in faults(stream(30), row(0, 0, 10), row(1, 8, 30)))
    assert any("committed offset is 31" in fault for fault in faults(stream(31), row(0, 0, 30)))
    assert any("stored start is 3" in fault for fault in faults(stream(30, start=3), row(0, 0, 30)))


def test_of_several_topics_a_fault_names_the_topic_and_its_partition() -> None:
    places = [Place(0, "edits-eu", 3)]
    found = list(chain_faults(stream(31), [row(0, 0, 30, counts={})], [], places))
    assert found[0].startswith("wiki_0_0[edits-eu:3]: 30 offsets") and found[1].startswith("edits-eu:3 epoch 0: ")


def test_counts_must_cover_every_offset() -> None:
    short = row(0, 0, 10, counts={0: PartitionCounts(good=8, no_record=1)})
    assert faults(stream(10), short) == ["wiki_0_0[0]: 10 offsets, but 9 messages and empty offsets were counted"]
    holes = row(0, 0, 10, counts={0: PartitionCounts(good=5, unparseable=1, late=1, no_record=3)})
    assert faults(stream(10), holes) == []


def test_more_rows_stored_than_read_is_a_fault() -> None:
    assert any("11 rows stored" in fault for fault in faults(stream(10), row(0, 0, 10, rows_stored=11)))


def test_a_reset_starts_a_new_chain_and_needs_its_audit_row() -> None:
    rows = (row(0, 0, 10), row(1, 40, 50, epoch=1))
    assert faults(stream(50, epoch=1, start=40), *rows, audits=(RESET,)) == []
    assert any("no audit row" in fault for fault in faults(stream(50, epoch=1, start=40), *rows))


def test_an_epoch_raised_in_place_needs_no_audit_row() -> None:
    assert faults(stream(10, epoch=1, start=10), row(0, 0, 10)) == []
    assert faults(stream(25, epoch=2, start=20), row(0, 0, 10), row(1, 10, 20, 1), row(2, 20, 25, 2)) == []


def test_a_gap_in_an_earlier_epoch_is_still_a_fault() -> None:
    rows = (row(0, 0, 10), row(1, 12, 20), row(2, 40, 50, epoch=1))
    assert any(
        "epoch 0" in fault and "in no range" in fault
        for fault in faults(stream(50, epoch=1, start=40), *rows, audits=(RESET,))
    )
