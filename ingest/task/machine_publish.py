"""Which sequence is published when and by whom, and when its rows may be dropped."""

from __future__ import annotations

from ingest.protocol import PublishOutcome, SequenceState
from ingest.task.machine_checkpoint import CheckpointRules
from ingest.task.messages import AskSequences, Command, Drop, Publish, PublishEnded, PublishFailed
from ingest.task.sequence import Sequence, SequencePhase


class PublishRules(CheckpointRules):
    """One publish at a time, oldest first, by the committer only; a lost answer is asked for again."""

    def oldest_unpublished(self) -> Sequence | None:
        return next((s for s in self.in_order() if s.phase is not SequencePhase.PUBLISHED), None)

    def advance(self) -> list[Command]:
        """Moves every sequence as far as what is known allows."""
        if self.finished or not self.started:
            return []
        commands = [*self.skip_published(), *self._close_gap()]
        for sequence in self.in_order():
            if sequence.number in self.rewinding:
                continue
            if sequence.phase is SequencePhase.READING and sequence.is_complete:
                sequence.phase = SequencePhase.COMPLETE
                sequence.not_before_ms = self.now_ms
            if sequence.phase is SequencePhase.COMPLETE and sequence.record.state is SequenceState.PUBLISHED:
                sequence.phase = SequencePhase.PUBLISHED
        return [*commands, *self._publish_next(), *self._drop_acknowledged(), *self._finish_when_done()]

    def _publish_next(self) -> list[Command]:
        sequence = self.oldest_unpublished()
        if sequence is None or sequence.phase is not SequencePhase.COMPLETE or sequence.number in self.rewinding:
            return self._ask_if_forgotten()
        if not self.committer or sequence.record.state is SequenceState.VOID:
            return self._learn_outcome()
        if self.now_ms < sequence.not_before_ms:
            return []
        sequence.phase = SequencePhase.PUBLISHING
        return [Publish(sequence.record, again=sequence.pushed)]

    def _ask_if_forgotten(self) -> list[Command]:
        """Told to stop before a saved end is reached: whoever told it may no longer know the sequence, when
        a reset voided it because the rest of its range is gone for ever."""
        sequence = self.oldest_unpublished()
        waits = sequence is not None and not sequence.is_open and sequence.phase is SequencePhase.READING
        return self._learn_outcome() if self.stopping and waits else []

    def _close_gap(self) -> list[Command]:
        """Told of a sequence that does not follow the last one known: asks for all in between."""
        if not self.has_gap or self.now_ms < self.learn_ms:
            return []
        self.learn_ms = self.now_ms + self.limits.learn_ms
        return [AskSequences(max(self.last_number, 0))]

    def _learn_outcome(self) -> list[Command]:
        """A replica that does not upload asks now and then what became of its sequences."""
        if self.now_ms < self.learn_ms:
            return []
        self.learn_ms = self.now_ms + self.limits.learn_ms
        oldest = self.oldest_unpublished()
        return [AskSequences(oldest.number)] if oldest is not None else []

    # ------------------------------------------------------------ outcomes

    def on_publish_ended(self, event: PublishEnded) -> list[Command]:
        sequence = self.sequences.get(event.number)
        if sequence is None or sequence.phase is not SequencePhase.PUBLISHING:
            return []
        sequence.phase = SequencePhase.COMPLETE
        sequence.pushed = True
        self.detail = event.reply.detail
        match event.reply.outcome:
            case PublishOutcome.PUBLISHED | PublishOutcome.ALREADY:
                sequence.phase = SequencePhase.PUBLISHED
                sequence.version = event.reply.version
                self.detail = ""
                return self._drop_unacknowledged()
            case PublishOutcome.TOO_EARLY | PublishOutcome.UNKNOWN:
                return self._retry(sequence)
            case PublishOutcome.RESTAGE:
                sequence.pushed = False
                return self._retry(sequence)
            case PublishOutcome.CONFLICT:
                # The supervisor voids it; until that is known, ask (PR-13).
                return [*self._retry(sequence), AskSequences(sequence.number)]
            case PublishOutcome.FENCED:
                return self.finish(False, f"fenced: {event.reply.detail}")

    def on_publish_failed(self, event: PublishFailed) -> list[Command]:
        """Merge, staging or upload failed: everything is tried again on new paths. Staging is also
        refused when another replica has published meanwhile, so the task asks."""
        sequence = self.sequences.get(event.number)
        if sequence is None or sequence.phase is not SequencePhase.PUBLISHING:
            return []
        sequence.phase = SequencePhase.COMPLETE
        sequence.pushed = False
        self.detail = event.error
        return [*self._retry(sequence), AskSequences(sequence.number)]

    def _retry(self, sequence: Sequence) -> list[Command]:
        wait_ms = min(self.limits.retry_ms << sequence.tries, self.limits.retry_max_ms)
        sequence.tries = min(sequence.tries + 1, 16)
        sequence.not_before_ms = self.now_ms + wait_ms
        return []

    # ------------------------------------------------------------ hand-off

    def _drop_acknowledged(self) -> list[Command]:
        """Every live query node answers at a version that holds these rows: they go (PR-6)."""
        commands: list[Command] = []
        for sequence in self.in_order():
            if sequence.phase is not SequencePhase.PUBLISHED:
                break
            if not 0 < sequence.version <= self.served_version:
                break
            commands.append(self._drop(sequence))
        return commands

    def _drop_unacknowledged(self) -> list[Command]:
        """Published rows no node asks for must not fill the disk: past a share of the bound the oldest
        go unasked, and requests below are answered TOO_OLD (PR-6)."""
        share = self.limits.held_bytes_max * self.limits.unacknowledged_share // 100
        held = [s for s in self.in_order() if s.phase is SequencePhase.PUBLISHED]
        commands: list[Command] = []
        while held and sum(s.totals.sequence_bytes for s in held) > share:
            commands.append(self._drop(held.pop(0)))
        return commands

    def _drop(self, sequence: Sequence) -> Command:
        self.dropped_through = max(self.dropped_through, sequence.version)
        self.forget(sequence.number)
        return Drop(sequence.number, self.dropped_through)

    def _finish_when_done(self) -> list[Command]:
        """Nothing held and nothing to come: released, or asked to stop with an unread open sequence."""
        held = [s for s in self.in_order() if not (self.stopping and s.is_open and not s.is_read)]
        if held or self.pause is not None or not (self.released or self.stopping):
            return []
        return self.finish(True)
