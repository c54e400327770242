"""Replays and expiry of quarantine files, in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ingest.metadata import replay_rules
from ingest.metadata.file_rules import StagedClaim
from ingest.metadata.memory_publish import MemoryPublishing
from ingest.metadata.records import AuditRow, QuarantineRow, QuarantineTotals, ReplayRecord
from ingest.protocol import PendingSegment, PublishOutcome, PublishReply, PublishRequest, StagedFile, StageRequest


class MemoryReplays(MemoryPublishing):
    """``ReplayStore``."""

    server_clock_ms: int | None = None
    """As of a database on another machine."""

    def begin_replay(self, generation: int, datasource: str, path: str, token: str, now_ms: int) -> ReplayRecord | None:
        with self._writing("begin_replay", generation) as state:
            file = self.quarantine_file(datasource, path)
            supervisor = None if file is None else state.supervisors.get(file.ref.supervisor)
            if not replay_rules.may_begin(file, supervisor):
                return None
            assert file is not None and supervisor is not None
            self._touch()
            self._end_replays(lambda replay: replay.path == path)
            group = self._count("group", file.ref.supervisor)
            made = replay_rules.begun(file, self._origin(file), supervisor, group, generation, (token, now_ms))
            state.replays[made.ref] = made
            return made

    def _origin(self, file: QuarantineRow) -> replay_rules.Origin:
        earlier = self.state.replays.get(file.ref)
        if earlier is not None:
            return replay_rules.Origin(earlier.topic, earlier.opened_at_ms)
        record = self._record(file.ref)
        assert record is not None, "a published sequence stays stored"
        topic = self.state.groups[(file.ref.supervisor, file.ref.group)].topic
        return replay_rules.Origin(topic, record.opened_at_ms)

    def _replay(self, token: str) -> ReplayRecord | None:
        return next((replay for replay in self.state.replays.values() if replay.token == token), None)

    def allocate_replayed(self, generation: int, token: str, start_ms: int, end_ms: int, now_ms: int) -> PendingSegment:
        with self._writing("allocate_replayed", generation) as state:
            replay = replay_rules.require_begun(self._replay(token), generation)
            known = state.allocated.get(replay.ref, {}).get((start_ms, end_ms))
            return known or self._allocate(replay.ref, replay.datasource, (start_ms, end_ms), now_ms)

    def stage_replayed(self, generation: int, token: str, files: Sequence[StagedFile], now_ms: int) -> None:
        with self._writing("stage_replayed", generation):
            replay = replay_rules.require_begun(self._replay(token), generation)
            self._stage(StageRequest(token, replay.ref, tuple(files)), now_ms)

    def publish_replay(self, generation: int, request: PublishRequest, now_ms: int) -> PublishReply:
        with self._writing("publish_replay", None) as state:
            known = state.ledger.get(request.ref)
            if known is not None:
                return PublishReply(PublishOutcome.ALREADY, known.version)
            replay = state.replays.get(request.ref)
            file = None if replay is None else self.quarantine_file(replay.datasource, replay.path)
            rows = self._staged_by(request.token, request)
            view = replay_rules.ReplayView(
                generation=state.generation if state.leader else None,
                replay=replay,
                file=file,
                staged=tuple(StagedClaim(row.row_id, row.path, row.segment_id) for row in rows),
                allocated=frozenset(p.segment_id for p in state.allocated.get(request.ref, {}).values()),
            )
            refusal = replay_rules.judge_replay(generation, request, view)
            if refusal is not None:
                return refusal
            assert replay is not None and file is not None
            self._touch()
            version = self._raise_version(replay.datasource)
            state.replays[replay.ref] = replace(replay, state="published")
            self._put_file(replace(file, state=replay_rules.REPLAYED, replayed_by=replay.ref.name))
            self._show(request, replay.datasource, version, now_ms)
            self._append_ledger(replay_rules.replay_ledger(request, replay, version, now_ms))
            return PublishReply(PublishOutcome.PUBLISHED, version)

    def _put_file(self, file: QuarantineRow) -> None:
        files = self.state.quarantine[file.datasource]
        files[next(at for at, known in enumerate(files) if known.path == file.path)] = file

    def end_replays(self, generation: int, token: str | None) -> int:
        with self._writing("end_replays", generation):
            if token is not None:
                return self._end_replays(lambda replay: replay.token == token)
            return self._end_replays(lambda replay: replay.generation != generation)

    def _end_replays(self, chosen: Callable[[ReplayRecord], bool]) -> int:
        going = [r for r in self.state.replays.values() if r.state == replay_rules.BEGUN and chosen(r)]
        for replay in going:
            self._touch()
            self.state.replays[replay.ref] = replace(replay, state="ended")
        self._end_files([replay.ref for replay in going])
        return len(going)

    def unexpired_quarantine(self, datasource: str, limit: int) -> list[QuarantineRow]:
        with self._lock:
            files = self.state.quarantine.get(datasource, [])
            return [file for file in files if file.state != replay_rules.EXPIRED][:limit]

    def database_ms(self) -> int | None:
        return self.server_clock_ms

    def quarantine_totals(self) -> dict[tuple[str, str], QuarantineTotals]:
        with self._lock:
            found: dict[tuple[str, str], QuarantineTotals] = {}
            for file in (file for files in self.state.quarantine.values() for file in files):
                old = found.get((file.datasource, file.state), QuarantineTotals(0, 0, 0))
                found[file.datasource, file.state] = QuarantineTotals(
                    old.files + 1, old.rows + file.rows, old.size_bytes + file.size_bytes
                )
            return dict(sorted(found.items()))

    def expire_quarantine(
        self, generation: int, datasource: str, paths: Sequence[str], audit: AuditRow
    ) -> tuple[str, ...]:
        with self._writing("expire_quarantine", generation) as state:
            wanted = set(paths)
            files = [f for f in self.unexpired_quarantine(datasource, len(state.staged_paths) + 1) if f.path in wanted]
            for file in files:
                self._touch()
                self._put_file(replace(file, state=replay_rules.EXPIRED))
                row = state.staged[state.staged_paths[file.path]]
                state.staged[row.row_id] = replace(row, state="superseded")
            if files:
                state.audit.append(audit)
            return tuple(sorted(file.path for file in files))
