"""Decides what one replica does: reads, pauses, seals, publishes, hands off, stops (pure)."""

from __future__ import annotations

from ingest.protocol import (
    CommitterCommand,
    PauseCommand,
    ResumeCommand,
    SealCommand,
    SequenceRecord,
    StopCommand,
    TaskCommand,
)
from ingest.task.machine_publish import PublishRules
from ingest.task.messages import (
    AskSequences,
    Beaten,
    BelowLogStart,
    CheckpointAnswered,
    Command,
    CommandReceived,
    DiskScarce,
    Dropped,
    EndRaised,
    Event,
    PublishEnded,
    PublishFailed,
    Read,
    Refused,
    Reply,
    RereadImpossible,
    Seek,
    SequencesAnswered,
    SpaceFreed,
    Started,
    Tick,
)


class IndexTaskMachine(PublishRules):
    """One replica. ``handle`` is the only mutator; the same events give the same commands.

    For one thread. The runner polls while ``is_reading``, splits each batch along ``windows()``,
    appends, and reports every append with ``Read`` before the next; it executes commands in order.
    """

    def handle(self, event: Event) -> list[Command]:
        """Takes one event; commands are in the order in which they must be executed."""
        self.now_ms = max(self.now_ms, event.now_ms)
        if self.finished:
            return self._refuse_when_finished(event)
        commands = self._dispatch(event)
        if self.finished:
            return commands
        return [*commands, *self.advance(), *self.ask_when_full()]

    def _refuse_when_finished(self, event: Event) -> list[Command]:
        return [Reply(event.command, refused="finished")] if isinstance(event, CommandReceived) else []

    def _dispatch(self, event: Event) -> list[Command]:
        match event:
            case Tick():
                return [*self.check_lease(), *self.ask_again(), *self._start_again()]
            case Read():
                return self._on_read(event)
            case CommandReceived():
                return self._on_command(event.command)
            case Beaten():
                return self._on_beaten(event)
            case Started():
                return self._on_started(event)
            case SpaceFreed():
                self.held_bytes = event.held_bytes
                return []
            case DiskScarce():
                self.disk_scarce = event.scarce
                return []
            case Refused():
                return self.finish(False, event.reason)
            case _:
                return self._dispatch_completion(event)

    def _dispatch_completion(
        self,
        event: Dropped
        | RereadImpossible
        | EndRaised
        | BelowLogStart
        | CheckpointAnswered
        | SequencesAnswered
        | PublishEnded
        | PublishFailed,
    ) -> list[Command]:
        match event:
            case Dropped():
                return self.on_dropped(event)
            case RereadImpossible():
                return self.on_reread_impossible(event)
            case EndRaised():
                return self.on_end_raised(event)
            case BelowLogStart():
                return self._on_below_log_start(event)
            case CheckpointAnswered():
                return self.on_checkpoint_answered(event)
            case SequencesAnswered():
                return self._on_sequences(event)
            case PublishEnded():
                return self.on_publish_ended(event)
            case PublishFailed():
                return self.on_publish_failed(event)

    # ------------------------------------------------------------ start

    def _on_started(self, event: Started) -> list[Command]:
        """Saved sequences come first; restored ones the welcome does not name are asked for (PR-9)."""
        self.generation = max(self.generation, event.welcome.generation)
        self.committer = event.welcome.committer
        self.pending_start = dict(event.restored)
        self.pending_totals = dict(event.totals)
        named = {record.ref.number for record in event.welcome.sequences}
        unnamed = sorted(set(event.restored) - named)
        if unnamed and unnamed[0] < min(named, default=unnamed[0] + 1):
            self.learn_ms = self.now_ms + self.limits.learn_ms
            return [AskSequences(unnamed[0])]
        return self._start(event.welcome.sequences)

    def _start_again(self) -> list[Command]:
        if self.started or self.pending_start is None or self.now_ms < self.learn_ms:
            return []
        self.learn_ms = self.now_ms + self.limits.learn_ms
        return [AskSequences(min(self.pending_start))]

    def _start(self, records: tuple[SequenceRecord, ...]) -> list[Command]:
        """Published sequences are kept only if they were restored whole: nodes may still ask for them."""
        restored, self.pending_start = self.pending_start or {}, None
        self.started = True
        self.released = not records
        self.restored_numbers = frozenset(restored)
        commands = [*self.learn(records), *self.restore(restored, self.pending_totals)]
        return commands if self.rewinding else [*commands, Seek(self.positions())]

    def _on_sequences(self, event: SequencesAnswered) -> list[Command]:
        if not self.started and self.pending_start is not None:
            return self._start(event.records) if event.records is not None else []
        return self.on_sequences_answered(event)

    # ------------------------------------------------------------ reading

    def _on_read(self, event: Read) -> list[Command]:
        """Records were appended. Reading while it must not is a fault of the runner."""
        assert self.started and self.pause is None and not self.rewinding, "read while paused"
        sequence = self.sequences[event.sequence]
        for run in event.runs:
            earlier = [s for s in self.in_order() if s.number < sequence.number and s.wants(run.partition)]
            assert not earlier, f"partition {run.partition} skipped sequence {earlier[0].record.ref.name} (TK-1)"
        sequence.take(event.runs, event.totals)
        self.held_bytes = event.totals.held_bytes
        return []

    def _on_below_log_start(self, event: BelowLogStart) -> list[Command]:
        """Records this replica still needs are gone; another one may hold them (PR-17)."""
        if self.positions().get(event.partition) != event.position or event.position >= event.log_start:
            return []
        return self.finish(
            False,
            f"partition {event.partition}: offset {event.position} is below the log start {event.log_start}",
        )

    # ------------------------------------------------------------ commands

    def _on_command(self, command: TaskCommand) -> list[Command]:
        match command:
            case PauseCommand():
                return self.on_pause(command)
            case SealCommand():
                return self.on_seal(command)
            case ResumeCommand():
                return self.on_resume(command)
            case CommitterCommand() | StopCommand():
                if command.generation < self.generation:
                    return [Reply(command, refused=f"generation {self.generation} was heard")]
                self.hear(command.generation, -1)
                return self._on_role(command)

    def _on_role(self, command: CommitterCommand | StopCommand) -> list[Command]:
        if isinstance(command, CommitterCommand):
            self.committer = command.committer
            return [Reply(command)]
        if not command.graceful:
            return [Reply(command), *self.finish(False, command.reason)]
        self.stopping = True
        self.ask_not_before_ms = self.now_ms
        return [Reply(command)]

    def _on_beaten(self, event: Beaten) -> list[Command]:
        """A reply of an older leader says nothing about roles; acknowledged versions never go back."""
        if event.reply.generation >= self.generation:
            self.hear(event.reply.generation, -1)
            self.committer = event.reply.committer
        self.served_version = max(self.served_version, event.reply.served_version)
        return []
