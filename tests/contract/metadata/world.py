"""Short ways to bring a metadata store into the state that a test is about."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

from ingest.metadata.records import AuditRow, DesiredState, NextSequence
from ingest.metadata.store import MetadataStore
from ingest.offsets import OffsetMap
from ingest.protocol import (
    AllocateRequest,
    AttemptRecord,
    AttemptState,
    PartitionCounts,
    PublishReply,
    PublishRequest,
    SequenceRecord,
    SequenceRef,
    StagedFile,
    StageRequest,
)
from segments.data_segment import DataSegment
from segments.identity import SegmentId
from segments.schema import ColumnSpec, ColumnType, SegmentSchema

HOUR_MS = 3_600_000
NOON_MS = 1_780_000_000_000 // HOUR_MS * HOUR_MS
SUPERVISOR = "edits"
TABLE = "wiki"
TOPIC = "edits-topic"
SPEC = {"type": "kafka", "spec": {"dataSchema": {"dataSource": TABLE}}}
SCHEMA = SegmentSchema.of((ColumnSpec("page", ColumnType.STRING), ColumnSpec("count", ColumnType.LONG, kind="metric")))


def at(**offsets: int) -> OffsetMap:
    """``at(p0=5, p1=7)`` is partition 0 at 5 and partition 1 at 7."""
    return OffsetMap({int(name[1:]): offset for name, offset in offsets.items()})


def following(version: int = 1) -> NextSequence:
    return NextSequence(spec_version=version, opened_at_ms=NOON_MS)


def audit(action: str = "test", at_ms: int = NOON_MS, **detail: Any) -> AuditRow:
    return AuditRow(at_ms, SUPERVISOR, action, detail)


@dataclass
class World:
    """One store with a leader; times grow by a millisecond per use."""

    store: MetadataStore
    generation: int = 0
    ids: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    open_ref: SequenceRef = field(default_factory=lambda: SequenceRef(SUPERVISOR, 0, 0))
    token: str = ""

    def lead(self, node: str = "overlord-1") -> int:
        """Takes leadership from whoever has it."""
        taken = self.store.take_leadership(node, f"{node}:8090", self.store.leadership())
        assert taken is not None
        self.generation = taken.generation
        return self.generation

    def start(self, partitions: int = 2, first: int = 0, supervisor: str = SUPERVISOR, table: str = TABLE) -> None:
        """A running supervisor whose partitions begin at ``first``."""
        if not self.generation:
            self.lead()
        self.store.put_supervisor(self.generation, supervisor, table, SPEC, DesiredState.RUNNING, NOON_MS)
        starts = OffsetMap((p, first) for p in range(partitions))
        self.store.init_offsets(self.generation, supervisor, table, TOPIC, "topic-id", starts)

    def open(self, *partitions: int, supervisor: str = SUPERVISOR) -> SequenceRecord:
        return self.store.open_group(self.generation, supervisor, TOPIC, partitions, following())

    def attempt(self, ref: SequenceRef, live: bool = True) -> str:
        """A new attempt of the sequence's group, running; returns its token."""
        token = f"token-{next(self.ids)}"
        record = AttemptRecord(
            task_id=f"task-{token}",
            attempt=1,
            token=token,
            supervisor=ref.supervisor,
            datasource=TABLE,
            group=ref.group,
            state=AttemptState.PENDING,
            committer=False,
            created_ms=NOON_MS,
        )
        self.store.create_attempt(self.generation, record)
        self.store.assign_attempt(self.generation, token, "worker-1")
        self.store.register_attempt(self.generation, token, "127.0.0.1:9000", 1, NOON_MS)
        if not live:
            self.end(token)
        return token

    def end(self, token: str, state: AttemptState = AttemptState.FENCED) -> None:
        self.store.set_attempt_state(self.generation, token, state, None, NOON_MS)

    def seal(self, ref: SequenceRef, end: OffsetMap, last: bool = False) -> tuple[SequenceRecord, ...]:
        return self.store.seal(self.generation, ref, end, None if last else following())

    def allocate(self, token: str, ref: SequenceRef, hour: int = 0, now_ms: int = NOON_MS) -> str:
        start_ms = NOON_MS + hour * HOUR_MS
        ask = AllocateRequest(token, ref, start_ms, start_ms + HOUR_MS)
        return self.store.allocate(self.generation, ask, now_ms).segment_id

    def prepare(
        self, token: str, record: SequenceRecord, hours: int = 1, quarantined: int = 0, now_ms: int = NOON_MS
    ) -> PublishRequest:
        """Allocates and stages ``hours`` segments and perhaps a quarantine file; returns what publishes them."""
        assert record.end is not None
        ids = [self.allocate(token, record.ref, hour, now_ms) for hour in range(hours)]
        nonce = next(self.ids)
        segments = tuple(segment_json(name, record, f"{TABLE}/{nonce}/{name}.parquet") for name in ids)
        files = [StagedFile(f"{TABLE}/{nonce}/{name}.parquet", name, 1_000) for name in ids]
        quarantine = None
        if quarantined:
            path = f"{TABLE}/{nonce}/quarantine.parquet"
            quarantine = {"path": path, "rows": quarantined, "sizeBytes": 10, "loadSpec": {"path": f"/deep/{path}"}}
            files.append(StagedFile(path, None, 10))
        if files:
            self.store.stage(self.generation, StageRequest(token, record.ref, tuple(files)), now_ms)
        counts = {p: PartitionCounts(good=record.end[p] - start) for p, start in record.start.items()}
        return PublishRequest(
            token=token,
            ref=record.ref,
            start=record.start,
            end=record.end,
            epochs=record.epochs,
            segments=segments,
            quarantine=quarantine,
            counts=counts,
            rows_in=sum(c.good for c in counts.values()),
            rows_stored=10 * hours,
            watermark_ms=OffsetMap((p, NOON_MS) for p in record.start),
        )

    def publish(self, request: PublishRequest) -> PublishReply:
        return self.store.publish(self.generation, request, NOON_MS)

    def ready(self, end: OffsetMap, hours: int = 1, quarantined: int = 0, last: bool = False) -> PublishRequest:
        """A new group over the end's partitions, sealed at ``end``, its files staged."""
        record = self.open(*end)
        token = self.attempt(record.ref)
        sealed, *_ = self.seal(record.ref, end, last)
        return self.prepare(token, sealed, hours, quarantined)


def segment_json(name: str, record: SequenceRecord, path: str) -> dict[str, Any]:
    assert record.end is not None
    segment = DataSegment(
        id=SegmentId.parse(name),
        rows=10,
        size_bytes=1_000,
        schema=SCHEMA,
        load_spec={"type": "local", "path": f"/deep/{path}"},
        min_time_ms=NOON_MS,
        max_time_ms=NOON_MS + 1,
        offsets=tuple((p, start, record.end[p]) for p, start in record.start.items()),
        checksum="00",
        spec_version=record.spec_version,
        sequence=record.ref.name,
        input_rows=10,
    )
    return segment.to_json()
