"""Decides what a supervisor does about everything that happens to it (pure)."""

from __future__ import annotations

from ingest.offsets import OffsetMap, furthest
from ingest.supervisor.invariants import check_groups
from ingest.supervisor.machine_idle import IdleRules
from ingest.supervisor.messages import (
    AttemptAssigned,
    AttemptCreated,
    AttemptMoved,
    CheckpointAsked,
    Command,
    CommitterSet,
    DesiredChanged,
    Event,
    GroupOpened,
    HandOffAsked,
    OffsetsStored,
    PublishSeen,
    ReplicaLeaving,
    ResetAsked,
    SequenceSealed,
    SequencesVoided,
    StateLoaded,
    StoreRefused,
    StreamFailed,
    StreamSeen,
    TaskAnswered,
    TaskBeat,
    TaskEnded,
    TaskRegistered,
    TaskSilent,
    TasksScaled,
    Tick,
)
from ingest.supervisor.state import Group

# What concerns one group only; everything else may let partitions or a whole supervisor move on.
LocalEvent = (
    TaskBeat
    | CheckpointAsked
    | TaskAnswered
    | TaskSilent
    | TaskRegistered
    | AttemptAssigned
    | AttemptCreated
    | CommitterSet
    | GroupOpened
)
AttemptEvent = (
    AttemptCreated | AttemptAssigned | TaskRegistered | TaskEnded | ReplicaLeaving | AttemptMoved | CommitterSet
)
StoredEvent = StateLoaded | OffsetsStored | TasksScaled | GroupOpened | SequenceSealed | SequencesVoided
OutsideEvent = StreamSeen | StreamFailed | DesiredChanged | ResetAsked | HandOffAsked | StoreRefused


class SupervisorMachine(IdleRules):
    """One supervisor under one leader generation. ``handle`` is the only mutator.

    For one thread. Nothing happens before the first ``StateLoaded``. Commands are executed in
    order; the same events give the same commands.
    """

    def handle(self, event: Event) -> list[Command]:
        """Takes one event. What concerns one group costs work in that group, anything else in all;
        nothing grows with the records read."""
        self.advance_time(event.now_ms)
        if not self.loaded and not isinstance(event, StateLoaded):
            return []
        commands = self._dispatch(event)
        if isinstance(event, LocalEvent):
            return commands if self.reloading else [*commands, *self._steer_group_of(event)]
        self.judge_exceptions()
        self.judge_idle(event)
        if isinstance(event, Tick | StateLoaded):
            commands += self._keep_going()
        if isinstance(event, Tick):
            commands += self.advance_scaling()
        if self.reloading:
            return commands  # nothing new is begun on a view known to be outdated
        commands += self.steer_groups()
        commands += self.advance_resets()
        for group in list(self.groups.values()):
            commands += self._steer(group)
        commands += self.rest()
        self.forget_done()
        check_groups(self.groups)
        return commands

    def waiting_for(self) -> tuple[str, ...]:
        """What an operator's wish waits for at this moment, in words for a status."""
        waits = [
            f"group {group.epoch}: a task reads again what ended ones had read, up to "
            f"{furthest(group.reported, group.unheard_ends or OffsetMap()).to_json()}"
            for group in self.groups.values()
            if group.reader_wait_ms is not None and group.open is not None
        ]
        waits += [
            f"reset of partitions {sorted(reset.moves)}: what was read is published first, or given up at the deadline"
            for reset in self.resets
        ]
        return tuple(waits)

    def _steer_group_of(self, event: LocalEvent) -> list[Command]:
        match event:
            case TaskBeat(beat=said) | CheckpointAsked(ask=said):
                token = said.token
            case TaskRegistered() | AttemptCreated():
                token = event.attempt.token
            case GroupOpened():
                group = self.groups.get(event.record.ref.group)
                return self._steer(group) if group is not None else []
            case TaskAnswered() | TaskSilent() | AttemptAssigned() | CommitterSet():
                token = event.token
        found = self.find(token)
        return self._steer(found[0]) if found is not None else []

    def _keep_going(self) -> list[Command]:
        """What only time brings on."""
        commands: list[Command] = []
        for group in list(self.groups.values()):
            commands += self.advance_round(group)
            commands += self.fence_silent(group)
            commands += self.tell_untold(group)
        return commands

    def _steer(self, group: Group) -> list[Command]:
        """What a group needs now."""
        commands = self.give_up_old_spec(group)
        commands += self.start_missing(group)
        commands += self.claim_slot(group)
        commands += self.free_slots(group)
        commands += self.choose_committer(group)
        commands += self.stop_leaving(group)
        reason = self.reason_to_end(group)
        waits = group.round is not None or self.now_ms < group.round_not_before_ms or self.is_being_reset(group)
        if reason is not None and not waits and not self.awaits_reader(group):
            commands += self.begin_round(group, reason)
        return commands

    # ------------------------------------------------------------ dispatch

    def _dispatch(self, event: Event) -> list[Command]:
        match event:
            case Tick():
                self.wall_ms = event.wall_ms
                return self.reload() if self.reloading else []
            case TaskBeat():
                return self.on_task_beat(event)
            case CheckpointAsked():
                return self.on_checkpoint_asked(event)
            case TaskAnswered():
                return self.on_task_answered(event)
            case TaskSilent():
                return self.on_task_silent(event)
            case PublishSeen():
                return self.on_publish_seen(event)
            case _:
                return self._dispatch_rare(event)

    def _dispatch_rare(self, event: AttemptEvent | StoredEvent | OutsideEvent) -> list[Command]:
        match event:
            case AttemptCreated() | AttemptAssigned() | TaskRegistered() | TaskEnded() | ReplicaLeaving():
                return self._dispatch_attempt(event)
            case AttemptMoved() | CommitterSet():
                return self._dispatch_attempt(event)
            case StateLoaded() | OffsetsStored() | TasksScaled():
                return self._dispatch_stored(event)
            case GroupOpened() | SequenceSealed() | SequencesVoided():
                return self._dispatch_stored(event)
            case StreamSeen() | StreamFailed() | DesiredChanged() | ResetAsked() | HandOffAsked() | StoreRefused():
                return self._dispatch_outside(event)

    def _dispatch_attempt(self, event: AttemptEvent) -> list[Command]:
        match event:
            case AttemptMoved():
                return self.on_attempt_moved(event)
            case CommitterSet():
                return self.on_committer_set(event)
            case AttemptCreated():
                return self.on_attempt_created(event)
            case AttemptAssigned():
                return self.on_attempt_assigned(event)
            case TaskRegistered():
                return self.on_task_registered(event)
            case TaskEnded():
                return self.on_task_ended(event)
            case ReplicaLeaving():
                return self.on_replica_leaving(event)

    def _dispatch_stored(self, event: StoredEvent) -> list[Command]:
        match event:
            case StateLoaded():
                commands = self.on_state_loaded(event)
                self.take_decided(event)
                return commands
            case TasksScaled():
                return self.on_tasks_scaled(event)
            case OffsetsStored():
                return self.on_offsets_stored(event)
            case GroupOpened():
                return self.on_group_opened(event)
            case SequenceSealed():
                return self.on_sequence_sealed(event)
            case SequencesVoided():
                return self.on_sequences_voided(event)

    def _dispatch_outside(self, event: OutsideEvent) -> list[Command]:
        match event:
            case StreamSeen():
                return self.on_stream_seen(event)
            case StreamFailed():
                self.health.run_failed(self.wall_ms, "StreamError", event.error, stream=True)
                return []
            case DesiredChanged():
                return self._on_desired_changed(event)
            case ResetAsked():
                return self.on_reset_asked(event)
            case HandOffAsked():
                return self.on_hand_off_asked(event)
            case StoreRefused():
                return self.reload()

    def _on_desired_changed(self, event: DesiredChanged) -> list[Command]:
        """A new spec cuts over at a checkpoint; another topic means other offsets: they are read first."""
        other_topic = event.config.topic != self.config.topic
        if event.config.spec_version != self.config.spec_version:
            self.health.spec_changed()
            self.alike_since = event.config.spec_version if event.other else self.alike_since
        self.desired = event.desired
        self.take_config(event.config)
        self.rested = False
        if not other_topic:
            return []
        self.offsets, self.plan_for = None, None
        return self.reload()
