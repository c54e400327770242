"""Allocation, staging and the publish transaction, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ingest.metadata import attempt_rules, rules, supervisor_rules
from ingest.metadata.file_rules import StagedClaim
from ingest.metadata.memory_state import Group, MemoryBase, SegmentEntry, StagedFileRow
from ingest.metadata.records import LedgerRow, QuarantineRow, StagedRow
from ingest.metadata.store import StoreConflict
from ingest.offsets import OffsetMap, furthest
from ingest.protocol import (
    AllocateRequest,
    PendingSegment,
    PublishOutcome,
    PublishReply,
    PublishRequest,
    SequenceRef,
    SequenceState,
    StageRequest,
)


class MemoryPublishing(MemoryBase):
    """From an allocated id to a ledger row."""

    def allocate(self, generation: int, request: AllocateRequest, now_ms: int) -> PendingSegment:
        with self._writing("allocate", generation) as state:
            ref = request.ref
            attempt_rules.require_member(state.attempts.get(request.token), ref)
            interval = (request.interval_start_ms, request.interval_end_ms)
            known = state.allocated.get(ref, {}).get(interval)
            if known is not None:
                return known
            attempt_rules.check_new_file(self._record(ref), ref)
            return self._allocate(ref, state.groups[(ref.supervisor, ref.group)].datasource, interval, now_ms)

    def _allocate(self, ref: SequenceRef, datasource: str, interval: tuple[int, int], now_ms: int) -> PendingSegment:
        state = self.state
        self._touch()
        chunk = (datasource, *interval)
        version = rules.allocated_version(self._versions_over(*chunk), now_ms)
        numbers = state.numbers.setdefault(chunk, {})
        number = numbers.get(version, 0)
        numbers[version] = number + 1
        known = rules.pending_segment(datasource, *interval, version, number)
        state.allocated.setdefault(ref, {})[interval] = known
        return known

    def _versions_over(self, datasource: str, start_ms: int, end_ms: int) -> list[str]:
        return [
            version
            for (name, start, end), numbers in self.state.numbers.items()
            if name == datasource and start < end_ms and end > start_ms
            for version in numbers
        ]

    def stage(self, generation: int, request: StageRequest, now_ms: int) -> None:
        with self._writing("stage", generation) as state:
            ref = request.ref
            attempt_rules.require_member(state.attempts.get(request.token), ref)
            attempt_rules.check_new_file(self._record(ref), ref)
            self._stage(request, now_ms)

    def _stage(self, request: StageRequest, now_ms: int) -> None:
        state, ref = self.state, request.ref
        for file in request.files:
            old = state.staged.get(state.staged_paths.get(file.path, 0))
            if old is not None and (old.token, old.ref, old.state) != (request.token, ref, "staged"):
                raise StoreConflict(f"path {file.path} is not new; upload to another")
        self._touch()
        wanted = {file.path for file in request.files}
        for row in self._staged_by(request.token, request):
            if row.path not in wanted:
                state.staged[row.row_id] = replace(row, state="superseded")
        for file in request.files:
            known = state.staged_paths.get(file.path)
            if known is None:
                known = self._count("staged", "")
                state.staged_paths[file.path] = known
                state.staged_of[ref] = (*state.staged_of.get(ref, ()), known)
            state.staged[known] = StagedFileRow(
                known, file.path, request.token, ref, file.segment_id, file.size_bytes, "staged", now_ms
            )

    def _staged_by(self, token: str, request: StageRequest | PublishRequest) -> list[StagedFileRow]:
        rows = (self.state.staged[row_id] for row_id in self.state.staged_of.get(request.ref, ()))
        return [row for row in rows if row.token == token and row.state == "staged"]

    def publish(self, generation: int, request: PublishRequest, now_ms: int) -> PublishReply:
        with self._writing("publish", None) as state:
            known = state.ledger.get(request.ref)
            if known is not None:
                return PublishReply(PublishOutcome.ALREADY, known.version)
            group = state.groups.get((request.ref.supervisor, request.ref.group))
            refusal = rules.judge_publish(generation, request, self._view(request, group))
            if refusal is not None:
                return refusal
            assert group is not None
            return PublishReply(PublishOutcome.PUBLISHED, self._apply(request, group, now_ms))

    def _view(self, request: PublishRequest, group: Group | None) -> rules.PublishView:
        state, ref = self.state, request.ref
        stream = None if group is None else state.streams[(ref.supervisor, group.topic)]
        known = [p for p in request.start if stream is not None and p in stream.committed]
        rows = self._staged_by(request.token, request)
        return rules.PublishView(
            generation=state.generation if state.leader else None,
            attempt=state.attempts.get(request.token),
            record=self._record(ref),
            committed=stream.committed.restrict(known) if stream else OffsetMap(),
            epochs=stream.epochs.restrict(known) if stream else OffsetMap(),
            staged=tuple(StagedClaim(r.row_id, r.path, r.segment_id) for r in rows),
            allocated=frozenset(p.segment_id for p in state.allocated.get(ref, {}).values()),
            behind=None
            if group is None
            else rules.predecessor(self._record(ref), self._unpublished(ref.supervisor, group.topic)),
        )

    def _apply(self, request: PublishRequest, group: Group, now_ms: int) -> int:
        state, ref = self.state, request.ref
        self._touch()
        version = self._raise_version(group.datasource)
        self._show(request, group.datasource, version, now_ms)
        key = (ref.supervisor, group.topic)
        state.streams[key] = replace(state.streams[key], committed=state.streams[key].committed.with_(request.end))
        state.watermarks[key] = furthest(state.watermarks.get(key, OffsetMap()), request.watermark_ms)
        record = self._record(ref)
        assert record is not None
        bad = request.parse_exceptions
        if bad:
            self._add_count(*supervisor_rules.exceptions_counter(ref.supervisor, record.spec_version), bad)
        self._put(replace(record, state=SequenceState.PUBLISHED, version=version, parse_exceptions=bad))
        self._append_ledger(rules.ledger_row(request, record, group.topic, version, now_ms))
        return version

    def _show(self, request: PublishRequest, datasource: str, version: int, now_ms: int) -> None:
        """Turns the staged files to published: segments visible from ``version`` on, and the quarantine file."""
        state = self.state
        for row in self._staged_by(request.token, request):
            state.staged[row.row_id] = replace(row, state="published")
        self._end_files([request.ref])  # of other attempts: never to be published now
        entries = state.segments.setdefault(datasource, {})
        for payload in request.segments:
            entries[str(payload["id"])] = SegmentEntry(datasource, payload, "published", now_ms, ((version, None),))
            state.changes.setdefault(datasource, []).append((version, str(payload["id"])))
        if request.quarantine is not None:
            files = state.quarantine.setdefault(datasource, [])
            files.append(rules.quarantine_row(request.quarantine, datasource, request.ref, now_ms))

    def _append_ledger(self, row: LedgerRow) -> None:
        self.state.ledger[row.ref] = row
        self.state.published.setdefault(row.ref.supervisor, []).append(row)

    def ledger(self, supervisor: str, after_version: int, limit: int) -> list[LedgerRow]:
        with self._lock:
            rows = (row for row in self.state.published.get(supervisor, ()) if row.version > after_version)
            return [row for row, _ in zip(rows, range(limit), strict=False)]

    def staged_of_ended(self, limit: int) -> list[StagedRow]:
        with self._lock:
            swept = [row for row in self.state.staged.values() if self._is_swept(row)]
            swept.sort(key=lambda row: (row.removed_ms is not None, row.row_id))
            return [
                StagedRow(row.row_id, row.path, row.token, row.state, row.staged_ms, row.removed_ms)
                for row in swept[:limit]
            ]

    def tracked_paths(self, datasource: str) -> set[str]:
        with self._lock:
            rows = self.state.staged.values()
            unfinished = {row.path for row in rows if row.state in ("staged", "superseded", "deleting")}
        return {path for path in unfinished if path.startswith(f"{datasource}/")}

    def _is_swept(self, row: StagedFileRow) -> bool:
        if row.state == "staged":
            # Files of replays are of no attempt.
            return row.token in self.state.attempts and not self.state.attempts[row.token].state.is_live
        return row.state in ("superseded", "deleting")

    def begin_delete(self, generation: int, row_ids: Sequence[int]) -> tuple[int, ...]:
        with self._writing("begin_delete", generation) as state:
            mine = [state.staged[row_id] for row_id in row_ids if row_id in state.staged]
            deleting = [row for row in mine if self._is_swept(row)]
            for row in deleting:
                if row.state != "deleting":
                    self._touch()
                    state.staged[row.row_id] = replace(row, state="deleting")
            return tuple(sorted(row.row_id for row in deleting))

    def finish_delete(self, generation: int, row_ids: Sequence[int], now_ms: int) -> None:
        with self._writing("finish_delete", generation) as state:
            for row_id in row_ids:
                row = state.staged.get(row_id)
                if row is None or row.state != "deleting":
                    continue
                self._touch()
                final = row.removed_ms is not None
                state.staged[row_id] = replace(
                    row, state="deleted" if final else "deleting", removed_ms=row.removed_ms or now_ms
                )

    def quarantine_files(self, datasource: str, limit: int, before: str | None = None) -> list[QuarantineRow]:
        with self._lock:
            files = self.state.quarantine.get(datasource, [])
            if before is not None:
                files = files[: next((at for at, file in enumerate(files) if file.path == before), 0)]
            return files[::-1][:limit]

    def quarantine_file(self, datasource: str, path: str) -> QuarantineRow | None:
        with self._lock:
            return next((file for file in self.state.quarantine.get(datasource, []) if file.path == path), None)
