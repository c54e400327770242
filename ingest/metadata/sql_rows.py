"""Database rows to records and back."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ingest.metadata.records import (
    AuditRow,
    LedgerRow,
    NodeRecord,
    QuarantineRow,
    ReplayRecord,
    ResetWish,
    SegmentRow,
    StagedRow,
)
from ingest.protocol import AttemptRecord, AttemptState, PartitionCounts, SequenceRecord, SequenceRef, SequenceState
from segments.data_segment import DataSegment


def key_of(ref: SequenceRef) -> dict[str, Any]:
    """A sequence's key columns."""
    return {"supervisor": ref.supervisor, "group_epoch": ref.group, "number": ref.number}


def ref_of(row: Any) -> SequenceRef:
    return SequenceRef(row.supervisor, row.group_epoch, row.number)


def sequence_of(row: Any) -> SequenceRecord:
    return SequenceRecord(
        ref=ref_of(row),
        start=row.start_offsets,
        epochs=row.epochs,
        spec_version=row.spec_version,
        opened_at_ms=row.opened_at_ms,
        state=SequenceState(row.state),
        end=row.end_offsets,
        assigned=row.assigned,
        released=row.released,
        version=row.version,
        parse_exceptions=row.parse_exceptions,
    )


def sequence_values(record: SequenceRecord) -> dict[str, Any]:
    return key_of(record.ref) | {
        "state": record.state.value,
        "start_offsets": record.start,
        "end_offsets": record.end,
        "epochs": record.epochs,
        "spec_version": record.spec_version,
        "opened_at_ms": record.opened_at_ms,
        "assigned": record.assigned,
        "version": record.version,
        "released": record.released,
        "parse_exceptions": record.parse_exceptions,
    }


def attempt_of(row: Any) -> AttemptRecord:
    return AttemptRecord(
        task_id=row.task_id,
        attempt=row.attempt,
        token=row.token,
        supervisor=row.supervisor,
        datasource=row.datasource,
        group=row.group_epoch,
        state=AttemptState(row.state),
        committer=row.committer,
        created_ms=row.created_ms,
        worker=row.worker,
        address=row.address,
        protocol=row.protocol,
        positions=row.positions,
        positions_sequence=row.positions_sequence,
        heartbeat_ms=row.heartbeat_ms,
        ended_ms=row.ended_ms,
        error=row.error,
    )


def attempt_values(record: AttemptRecord) -> dict[str, Any]:
    names = AttemptRecord.__dataclass_fields__
    values = {name: getattr(record, name) for name in names}
    values["state"] = record.state.value
    values["group_epoch"] = values.pop("group")
    return values


def ledger_of(row: Any) -> LedgerRow:
    return LedgerRow(
        ref=ref_of(row),
        topic=row.topic,
        start=row.start_offsets,
        end=row.end_offsets,
        epochs=row.epochs,
        counts={int(p): PartitionCounts(**counts) for p, counts in row.counts.items()},
        rows_in=row.rows_in,
        rows_stored=row.rows_stored,
        segment_ids=tuple(row.segment_ids),
        quarantine_path=row.quarantine_path,
        spec_version=row.spec_version,
        version=row.version,
        published_ms=row.published_ms,
        token=row.token,
        replayed_path=row.replayed_path,
    )


def ledger_values(row: LedgerRow, datasource: str) -> dict[str, Any]:
    return key_of(row.ref) | {
        "first_number": row.ref.number,
        "datasource": datasource,
        "topic": row.topic,
        "start_offsets": row.start,
        "end_offsets": row.end,
        "epochs": row.epochs,
        "counts": {str(p): asdict(counts) for p, counts in row.counts.items()},
        "rows_in": row.rows_in,
        "rows_stored": row.rows_stored,
        "parse_exceptions": sum(counts.parse_exceptions for counts in row.counts.values()),
        "segment_ids": list(row.segment_ids),
        "quarantine_path": row.quarantine_path,
        "spec_version": row.spec_version,
        "version": row.version,
        "published_ms": row.published_ms,
        "token": row.token,
        "replayed_path": row.replayed_path,
    }


def segment_of(row: Any) -> SegmentRow:
    return SegmentRow(DataSegment.from_json(row.payload), row.added, row.removed, row.state, row.published_ms)


def segment_values(payload: dict[str, Any], ref: SequenceRef, version: int, now_ms: int) -> dict[str, Any]:
    segment = DataSegment.from_json(payload)
    return key_of(ref) | {
        "segment_id": str(segment.id),
        "datasource": segment.id.datasource,
        "start_ms": segment.interval.start_ms,
        "end_ms": segment.interval.end_ms,
        "version": segment.id.version,
        "partition_num": segment.id.partition_num,
        "state": "published",
        "rows": segment.rows,
        "size_bytes": segment.size_bytes,
        "payload": payload,
        "published_ms": now_ms,
        "published_version": version,
    }


def node_of(row: Any) -> NodeRecord:
    return NodeRecord(row.node, tuple(row.roles), row.address, row.renewed_ms, dict(row.acknowledged), dict(row.detail))


def audit_of(row: Any) -> AuditRow:
    return AuditRow(row.at_ms, row.supervisor, row.action, row.detail)


def wish_of(row: Any) -> ResetWish:
    plain = (row.id, row.supervisor, row.topic, row.moves, row.topic_id, row.discard, row.asked_ms)
    return ResetWish(*plain, backfill=row.backfill)


def wish_values(wish: ResetWish) -> dict[str, Any]:
    return {
        "id": wish.wish_id,
        "supervisor": wish.supervisor,
        "topic": wish.topic,
        "moves": wish.moves,
        "topic_id": wish.topic_id,
        "discard": wish.discard,
        "asked_ms": wish.asked_ms,
        "backfill": wish.backfill,
    }


def staged_of(row: Any) -> StagedRow:
    return StagedRow(row.id, row.path, row.token, row.state, row.staged_ms, row.removed_ms)


def quarantine_of(row: Any) -> QuarantineRow:
    return QuarantineRow(
        datasource=row.datasource,
        ref=ref_of(row),
        path=row.path,
        rows=row.rows,
        size_bytes=row.size_bytes,
        load_spec=row.load_spec,
        published_ms=row.published_ms,
        state=row.state,
        replayed_by=row.replayed_by,
    )


def replay_of(row: Any) -> ReplayRecord:
    names = ReplayRecord.__dataclass_fields__.keys() - {"ref"}
    return ReplayRecord(ref=ref_of(row), **{name: getattr(row, name) for name in names})


def replay_values(record: ReplayRecord) -> dict[str, Any]:
    names = ReplayRecord.__dataclass_fields__.keys() - {"ref"}
    return key_of(record.ref) | {name: getattr(record, name) for name in names}
