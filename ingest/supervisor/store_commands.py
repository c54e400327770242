"""Executes a supervisor machine's store commands, each exactly as it stands, and turns completions into events."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ingest.clock import Clock
from ingest.metadata.records import AuditRow, GroupState, StreamOffsets
from ingest.metadata.store import MetadataStore
from ingest.protocol import AttemptRecord, AttemptState, SequenceRecord, TaskSpec, pattern_of
from ingest.protocol.places import with_names
from ingest.supervisor.config import SupervisorConfig, SupervisorState
from ingest.supervisor.messages import (
    AddPartitions,
    AttemptCreated,
    AttemptMoved,
    CommitterSet,
    CreateAttempt,
    Event,
    GroupOpened,
    InitOffsets,
    MoveAttempt,
    OffsetsStored,
    OpenGroup,
    RaiseEpochs,
    Reload,
    ResetOffsets,
    ScaleTasks,
    SealSequence,
    SequenceSealed,
    SequencesVoided,
    SetCommitter,
    StateLoaded,
    TasksScaled,
    VoidSequences,
)
from ingest.supervisor.ports import TaskQueue
from ingest.supervisor.spec_cache import SpecCache

StoreCommand = (
    InitOffsets
    | AddPartitions
    | ResetOffsets
    | RaiseEpochs
    | ScaleTasks
    | OpenGroup
    | SealSequence
    | VoidSequences
    | MoveAttempt
    | SetCommitter
    | Reload
)


ENDED_ATTEMPTS = 200
"""Attempts that ended lately, given to a new leader's machine; the store numbers attempts by all of them."""


class StoreCommands:
    """One supervisor's hands on the metadata store, for one leader generation. For one thread.

    Methods raise what the store raises; all may be repeated after StoreUnreachable.
    """

    def __init__(self, store: MetadataStore, queue: TaskQueue, generation: int, clock: Clock) -> None:
        self._store = store
        self._queue = queue
        self._generation = generation
        self._clock = clock
        self._specs = SpecCache(store)

    def state(self, config: SupervisorConfig) -> StateLoaded:
        record = self._store.supervisor(config.supervisor)
        assert record is not None
        groups = tuple(self._store.groups(config.supervisor))
        state = SupervisorState(
            record.desired,
            self._store.offsets(config.supervisor, config.topic),
            groups,
            tuple(self._store.attempts(config.supervisor, False, ENDED_ATTEMPTS)),
            tuple(wish for wish in self._store.reset_wishes(config.supervisor) if wish.topic == config.topic),
            None if config.scaling is None else self._store.last_audit(config.supervisor, "scale"),
            self._store.parse_exceptions(config.supervisor, config.spec_version),
            self._alike_since(config, groups),
        )
        return StateLoaded(self._clock.monotonic_ms(), self._clock.now_ms(), state)

    def _alike_since(self, config: SupervisorConfig, groups: tuple[GroupState, ...]) -> int | None:
        """Looked for only where something unpublished was opened under an earlier version."""
        used = {r.spec_version for group in groups for r in group.sequences if r.spec_version < config.spec_version}
        if not used:
            return None
        specs = {entry.version: entry.spec for entry in self._store.history(config.supervisor) if entry.spec}
        present, since = specs.get(config.spec_version), config.spec_version
        for version in sorted((v for v in specs if v < since), reverse=True):
            if specs[version] != present:
                break
            since = version
        return since

    def execute(self, config: SupervisorConfig, command: StoreCommand) -> Event:
        store, generation, name = self._store, self._generation, config.supervisor
        match command:
            case InitOffsets() | AddPartitions() | ResetOffsets() | RaiseEpochs():
                return OffsetsStored(self._now(), self._move_offsets(config, command))
            case ScaleTasks(task_count, audit):
                store.append_audit(generation, audit)
                return TasksScaled(self._now(), task_count)
            case OpenGroup(partitions, following):
                record = store.open_group(generation, name, config.topic, partitions, following)
                return GroupOpened(self._now(), record)
            case SealSequence(ref, end, following, bad):
                return SequenceSealed(self._now(), store.seal(generation, ref, end, following, bad))
            case VoidSequences(group, from_number, audit):
                voided = store.void(generation, name, group, from_number, self._told(config, audit))
                return SequencesVoided(self._now(), group, tuple(voided))
            case MoveAttempt():
                return self._move(command)
            case SetCommitter(token):
                store.set_committer(generation, token)
                return CommitterSet(self._now(), token)
            case Reload():
                return self.state(config)

    def _move_offsets(
        self, config: SupervisorConfig, command: InitOffsets | AddPartitions | ResetOffsets | RaiseEpochs
    ) -> StreamOffsets:
        store, generation, name, topic = self._store, self._generation, config.supervisor, config.topic
        match command:
            case InitOffsets(topic_id, starts):
                return store.init_offsets(
                    generation, name, config.datasource, topic, topic_id, starts, config.spec_version
                )
            case AddPartitions(starts):
                return store.add_partitions(generation, name, topic, starts)
            case ResetOffsets(audit=audit, wish=int(wish)):
                return store.carry_out_reset(generation, name, topic, wish, self._told(config, audit))
            case ResetOffsets(moves, topic_id, audit):
                return store.reset_offsets(generation, name, topic, moves, topic_id, self._told(config, audit))
            case RaiseEpochs(audit):
                return store.reset_offsets(generation, name, topic, None, None, audit)

    def _told(self, config: SupervisorConfig, audit: AuditRow) -> AuditRow:
        """The row with the names of partitions, where there are several topics."""
        if pattern_of(config.topic) is None:
            return audit
        return replace(audit, detail=with_names(audit.detail, self._store.places(config.supervisor, config.topic)))

    def _move(self, command: MoveAttempt) -> AttemptMoved:
        wall_ms = self._clock.now_ms()
        attempt = self._store.set_attempt_state(self._generation, command.token, command.state, command.error, wall_ms)
        if not command.state.is_live:
            self._queue.settled()
        return AttemptMoved(self._now(), attempt)

    def create_attempt(self, config: SupervisorConfig, command: CreateAttempt, token: str) -> AttemptCreated:
        """Stores the attempt (before any start order, PR-7), then queues it for a worker."""
        attempt = AttemptRecord(
            task_id=command.task_id,
            attempt=command.attempt,
            token=token,
            supervisor=config.supervisor,
            datasource=config.datasource,
            group=command.group,
            state=AttemptState.PENDING,
            committer=command.committer,
            created_ms=self._clock.now_ms(),
        )
        stored, sequences = self._store.create_attempt(self._generation, attempt)
        spec = self.task_spec(config, stored, sequences)
        self._queue.enqueue(spec, command.prefer_worker, command.avoid_workers)
        return AttemptCreated(self._now(), stored)

    def resume_starts(self, config: SupervisorConfig, loaded: SupervisorState) -> None:
        """Repeats the start orders that an earlier leader may not have delivered."""
        for group in loaded.groups:
            for attempt in group.attempts:
                if attempt.state is AttemptState.PENDING:
                    self._queue.enqueue(self.task_spec(config, attempt, group.sequences), None, ())
                elif attempt.state is AttemptState.ASSIGNED and attempt.worker is not None:
                    self._queue.reassign(self.task_spec(config, attempt, group.sequences), attempt.worker)

    def task_spec(
        self, config: SupervisorConfig, attempt: AttemptRecord, sequences: tuple[SequenceRecord, ...]
    ) -> TaskSpec:
        offsets = self._store.offsets(config.supervisor, config.topic)
        mine = {partition for record in sequences for partition in record.start}
        places = self._store.places(config.supervisor, config.topic) if pattern_of(config.topic) is not None else ()
        return TaskSpec(
            task_id=attempt.task_id,
            attempt=attempt.attempt,
            token=attempt.token,
            supervisor=attempt.supervisor,
            datasource=attempt.datasource,
            group=attempt.group,
            generation=self._generation,
            topic=config.topic,
            topic_id=None if offsets is None else offsets.topic_id,
            sequences=sequences,
            specs=self.specs(config, sequences),
            committer=attempt.committer,
            places=tuple(place for place in places if place.number in mine),
            database=self._store.database_id(),
        )

    def specs(self, config: SupervisorConfig, sequences: tuple[SequenceRecord, ...]) -> dict[int, dict[str, Any]]:
        """The spec versions these sequences were opened under, as posted."""
        return {version: self._specs.of(config.supervisor, version) for version in {s.spec_version for s in sequences}}

    def _now(self) -> int:
        return self._clock.monotonic_ms()
