"""What a task may ask of the overlord: the store behind fencing, and word of it to the supervisor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ingest.clock import Clock
from ingest.errors import AttemptRefused, LeadershipLost, OverlordUnreachable, RequestRefused, StoreUnreachable
from ingest.metadata.records import GroupState
from ingest.metadata.store import MetadataStore, StoreConflict
from ingest.offsets import OffsetMap
from ingest.overlord.sealings import Sealings
from ingest.overlord.served import ServedVersions
from ingest.protocol import (
    AllocateRequest,
    AttemptRecord,
    CheckpointAnswer,
    CheckpointAsk,
    HeartbeatReply,
    PendingSegment,
    PublishOutcome,
    PublishReply,
    PublishRequest,
    SequenceRecord,
    SequenceRef,
    SequenceState,
    StageRequest,
    TaskHeartbeat,
    TaskHello,
    TaskWelcome,
)
from ingest.supervisor.messages import CheckpointAsked, Event, PublishSeen, StoreRefused, TaskBeat, TaskRegistered
from ingest.supervisor.spec_cache import SpecCache

ROUND_WAIT_MS = 250
"""How long an ask is held open for the round it begins; later the end is told."""

Post = Callable[[str, Event], None]


class LeaderActions:
    """``ingest.task.ports.OverlordActions`` of one leader generation; safe from any thread.

    Everything is stored before it is answered or told to a supervisor. When the store is away the
    task hears OverlordUnreachable: it keeps reading and asks again.
    """

    def __init__(
        self,
        store: MetadataStore,
        generation: int,
        clock: Clock,
        served: ServedVersions,
        sealings: Sealings,
        post: Post,
    ) -> None:
        self._store = store
        self._generation = generation
        self._clock = clock
        self._served = served
        self._sealings = sealings
        self._post = post
        self._spec_cache = SpecCache(store)
        self._testified: dict[str, int] = {}
        self.published: Callable[[PublishRequest], None] = lambda request: None  # told of each publish, once

    def register(self, hello: TaskHello) -> TaskWelcome:
        with self._translated():
            attempt = self._store.register_attempt(
                self._generation, hello.token, hello.address, hello.protocol, self._clock.now_ms()
            )
            group = self._group(attempt)
            sequences = () if group is None else group.sequences
            specs = self._specs(attempt.supervisor, sequences)
        self._post(attempt.supervisor, TaskRegistered(self._clock.monotonic_ms(), attempt))
        return TaskWelcome(self._generation, sequences, specs, attempt.committer)

    def heartbeat(self, beat: TaskHeartbeat) -> HeartbeatReply:
        with self._translated():
            if beat.published_version > self._testified.get(beat.table, 0):
                self._testify(beat)
            attempt = self._store.record_positions(
                self._generation, beat.token, beat.sequence, beat.positions, self._clock.now_ms()
            )
            served = self._served.of(attempt.datasource)
        self._post(attempt.supervisor, TaskBeat(self._clock.monotonic_ms(), beat))
        return HeartbeatReply(self._generation, served, attempt.committer)

    def ask_checkpoint(self, ask: CheckpointAsk) -> CheckpointAnswer:
        with self._translated():
            supervisor = ask.ref.supervisor
            asked = CheckpointAsked(self._clock.monotonic_ms(), ask)
            # The task stands still meanwhile: where this leadership itself has opened the sequence, the round
            # begins at once, and whether the attempt is live is looked up beside it. The supervisor knows its
            # replicas; it does not hear of others.
            at_once = self._sealings.opened(ask.ref)
            if at_once:
                self._post(supervisor, asked)
            self._live(ask.token)
            saved: tuple[SequenceRecord, ...] = ()
            if not at_once:
                saved = self._store.sequences(supervisor, ask.ref.group, ask.ref.number)
            if not saved or saved[0].state is SequenceState.OPEN:
                if not at_once:
                    self._post(supervisor, asked)
                saved = self._sealings.wait_for(ask.ref, ROUND_WAIT_MS)
            return CheckpointAnswer(self._generation, saved, self._specs(supervisor, saved))

    def sequences(self, token: str, from_number: int) -> CheckpointAnswer:
        with self._translated():
            attempt = self._live(token)
            saved = self._store.sequences(attempt.supervisor, attempt.group, from_number)
            self._note_published(token, saved)
            return CheckpointAnswer(self._generation, saved, self._specs(attempt.supervisor, saved))

    def _note_published(self, token: str, saved: tuple[SequenceRecord, ...]) -> None:
        """What a task learns here it does not publish again: where the answer to the publish was lost, the
        supervisor hears of it nowhere else."""
        published = [record for record in saved if record.state is SequenceState.PUBLISHED]
        for record in published[-1:]:
            now_ms, ref = self._clock.monotonic_ms(), record.ref
            seen = PublishSeen(now_ms, token, ref, PublishOutcome.ALREADY, record.parse_exceptions)
            self._post(ref.supervisor, seen)

    def raise_end(self, token: str, ref: SequenceRef, end: OffsetMap) -> SequenceRecord | None:
        with self._translated():
            try:
                record = self._store.raise_end(self._generation, token, ref, end)
            except StoreConflict:
                return None
        # The supervisor's picture of this sequence and its successor is outdated now.
        self._post(ref.supervisor, StoreRefused(self._clock.monotonic_ms(), f"the end of {ref.name} was raised"))
        return record

    def allocate(self, request: AllocateRequest) -> PendingSegment:
        with self._translated():
            return self._store.allocate(self._generation, request, self._clock.now_ms())

    def stage(self, request: StageRequest) -> None:
        with self._translated():
            self._store.stage(self._generation, request, self._clock.now_ms())

    def publish(self, request: PublishRequest) -> PublishReply:
        try:
            reply = self._store.publish(self._generation, request, self._clock.now_ms())
        except StoreUnreachable as error:
            if error.effect_known_absent:
                raise OverlordUnreachable(str(error)) from error
            return PublishReply(PublishOutcome.UNKNOWN, detail=str(error))
        except LeadershipLost as error:
            raise OverlordUnreachable(str(error)) from error
        if reply.outcome is PublishOutcome.PUBLISHED:
            self.published(request)
        now_ms = self._clock.monotonic_ms()
        bad = request.parse_exceptions
        self._post(request.ref.supervisor, PublishSeen(now_ms, request.token, request.ref, reply.outcome, bad))
        return reply

    def _testify(self, beat: TaskHeartbeat) -> None:
        """Before anything is written: the task may know of commits that this database has lost. Only one that
        the database knows is believed."""
        attempt = self._store.attempt(beat.token)
        if attempt is not None and attempt.datasource == beat.table:
            self._store.testify(0, {beat.table: beat.published_version})
            self._testified[beat.table] = beat.published_version

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """A store that is away, or a leadership that is over, is an unreachable overlord to a task."""
        try:
            yield
        except (StoreUnreachable, LeadershipLost) as error:
            raise OverlordUnreachable(str(error)) from error
        except StoreConflict as error:
            raise RequestRefused(str(error)) from error

    def _live(self, token: str) -> AttemptRecord:
        attempt = self._store.attempt(token)
        if attempt is None or not attempt.state.is_live:
            raise AttemptRefused(f"attempt {token[:8]}... is not live")
        return attempt

    def _specs(self, supervisor: str, records: tuple[SequenceRecord, ...]) -> dict[int, dict[str, Any]]:
        return {version: self._spec_cache.of(supervisor, version) for version in {r.spec_version for r in records}}

    def _group(self, attempt: AttemptRecord) -> GroupState | None:
        groups = self._store.groups(attempt.supervisor)
        return next((group for group in groups if group.group == attempt.group), None)
