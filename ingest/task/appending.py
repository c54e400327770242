"""The task's rows over the appenderator: what ``ingest.task.rows.TaskRows`` asks, in the appenderator's terms."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import structlog

from ingest.appenderator.appenderator import Appenderator, SequenceTotals
from ingest.appenderator.decoding.batch import RowProblem
from ingest.appenderator.manifest import MANIFEST_NAME
from ingest.clock import Clock
from ingest.offsets import OffsetMap
from ingest.protocol import SequenceRecord, TaskSpec
from ingest.spec import SupervisorSpec, parse_supervisor_spec
from ingest.stream.schemas import SchemaSources
from ingest.stream.supplier import Poll
from ingest.task.directory import AttemptDirectory
from ingest.task.messages import Run, Totals
from ingest.task.polls import take_messages
from ingest.task.rows import Allocate, Appended, Merged, MergedFile
from segments.live import LiveAnswer, LiveAsk

log = structlog.get_logger()

DECODED_PER_LIMIT: Final = 4
"""Batches are bounded by this many times the segment's row limit: what is decoded past a limit is decoded again."""
BATCH_MESSAGES_MIN: Final = 1_000
THROWN_AWAY: Final = {"filtered": "filtered", "tombstones": "null", "early": "afterMax", "late": "beforeMin"}
"""Our counter to Druid's reason."""


def has_rows(work: Path) -> bool:
    """Whether a ``work`` directory holds a manifest."""
    return (work / MANIFEST_NAME).exists()


class AppenderRows:
    """``TaskRows`` of one attempt; restores from the first of ``older`` (ended attempts, newest first)."""

    def __init__(
        self,
        directory: AttemptDirectory,
        spec: TaskSpec,
        clock: Clock,
        older: Sequence[AttemptDirectory],
        schemas: SchemaSources | None = None,
    ) -> None:
        self._appenderator = Appenderator(directory.work, spec.group, spec.token, schemas)
        self._clock = clock
        self._specs: dict[int, SupervisorSpec] = {}
        self._bytes_read = 0
        self._seen_ms: dict[tuple[int, int], int] = {}
        self._restored: dict[int, OffsetMap] = {}
        for version, posted in spec.specs.items():
            self._specs[version] = parse_supervisor_spec(posted)[0]
        if older:
            self._restored = self._appenderator.restore(older[0].work, self._specs)
            directory.mark("restored")
            log.info("rows restored", older=older[0].path.name, positions=_shown(self._restored))

    def open(self, record: SequenceRecord, posted: dict[str, Any]) -> None:
        if record.spec_version not in self._specs:
            self._specs[record.spec_version] = parse_supervisor_spec(posted)[0]
        self._appenderator.open_sequence(record, self._specs[record.spec_version])

    def append(self, number: int, polls: list[Poll]) -> Appended:
        limit = max(DECODED_PER_LIMIT * self._row_limit(), BATCH_MESSAGES_MIN)
        taken, left = take_messages(polls, limit)
        done = self._appenderator.append(number, taken)
        self._bytes_read += sum(len(value) for poll in taken for value in poll.values if value is not None)
        runs = tuple(Run(partition, start, end) for partition, start, end in done.ranges if start < end)
        return Appended(runs, _totals(done.totals), [*done.rest, *left])

    def _row_limit(self) -> int:
        return min((spec.tuning.max_rows_per_segment for spec in self._specs.values()), default=1)

    def cut(self, number: int) -> None:
        self._appenderator.cut(number)

    def reread_from(self, number: int, end: OffsetMap) -> OffsetMap:
        return self._appenderator.reread_from(number, end)

    def drop_past(self, number: int, end: OffsetMap) -> tuple[OffsetMap, Totals]:
        positions = self._appenderator.drop_past(number, end)
        return positions, _totals(self._appenderator.totals(number))

    def forget(self, number: int, dropped_through: int) -> int:
        return self._appenderator.drop(number, dropped_through)

    def maintain(self, now_ms: int) -> None:
        self._appenderator.maintain(now_ms)

    def persist(self) -> None:
        self._appenderator.persist()

    def restored(self) -> tuple[dict[int, OffsetMap], dict[int, Totals]]:
        totals = {number: _totals(self._appenderator.totals(number)) for number in self._restored}
        return dict(self._restored), totals

    def merge(self, record: SequenceRecord, allocate: Allocate) -> Merged:
        done = self._appenderator.merge(record, allocate)
        files = [MergedFile(file.path, file.segment.size_bytes, file.segment) for file in done.files]
        if done.quarantine is not None:
            files.append(MergedFile(done.quarantine.path, done.quarantine.size_bytes, None))
        quarantined = 0 if done.quarantine is None else done.quarantine.rows
        return Merged(tuple(files), quarantined, done.counts, done.rows_in, done.rows_stored, done.watermark_ms)

    def live(self, ask: LiveAsk) -> LiveAnswer:
        return self._appenderator.live(ask)

    def chunk_bytes(self, number: int) -> bytes | None:
        return self._appenderator.chunk_bytes(number)

    def counters(self) -> dict[str, int]:
        """Druid's names: each message once, thrown-away ones by reason too."""
        counts = self._appenderator.counters()
        told = {
            "processed": counts.get("good", 0),
            "processedBytes": self._bytes_read,
            "processedWithError": counts.get("partly_good", 0),
            "thrownAway": sum(counts.get(name, 0) for name in THROWN_AWAY),
            "unparseable": counts.get("unparseable", 0),
            "rows": counts.get("rows", 0),
        }
        for name, reason in THROWN_AWAY.items():
            if counts.get(name):
                told[f"thrownAwayByReason.{reason}"] = counts[name]
        return told | {name: count for name, count in counts.items() if name.startswith("truncated.")}

    def parse_errors(self) -> tuple[dict[str, Any], ...]:
        now_ms = self._clock.now_ms()
        newest = self._appenderator.samples()[::-1]
        known = {(problem.partition, problem.offset) for problem in newest}
        # A problem carries no time of its own; it is stamped when it is first told.
        self._seen_ms = {place: self._seen_ms.get(place, now_ms) for place in known}
        return tuple(self._parse_error(problem) for problem in newest)

    def _parse_error(self, problem: RowProblem) -> dict[str, Any]:
        return {
            "timeOfExceptionMillis": self._seen_ms.get((problem.partition, problem.offset), 0),
            "errorType": "ParseException" if problem.unparseable else "ProcessedWithError",
            "input": problem.input,
            "details": list(problem.details),
            "partition": problem.partition,
            "offset": problem.offset,
        } | ({} if problem.source is None else dict(zip(("topic", "partition"), problem.source, strict=True)))

    def held(self) -> tuple[int, int]:
        return self._appenderator.held()

    def close(self) -> None:
        """Nothing is open between calls."""


def _totals(totals: SequenceTotals) -> Totals:
    held_bytes, bad = totals.held_bytes, totals.parse_exceptions
    return Totals(totals.rows, totals.segment_rows, totals.sequence_bytes, held_bytes, bad)


def _shown(positions: dict[int, OffsetMap]) -> dict[int, dict[str, int]]:
    return {number: offsets.to_json() for number, offsets in positions.items()}
