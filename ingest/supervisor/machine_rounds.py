"""How a supervisor ends sequences: begins rounds, collects positions, saves before it tells."""

from __future__ import annotations

from ingest.metadata.records import NextSequence
from ingest.protocol import (
    PROTOCOL_VERSION,
    PauseCommand,
    ResumeCommand,
    SealCommand,
    StopCommand,
)
from ingest.supervisor.agreement import CheckpointRound, RoundReason, RoundStep
from ingest.supervisor.machine_readers import ReaderRules
from ingest.supervisor.messages import (
    CheckpointAsked,
    Command,
    HandOffAsked,
    Reload,
    SealSequence,
    SendTask,
    SequenceSealed,
    TaskAnswered,
    TaskSilent,
)
from ingest.supervisor.state import Group, Replica


class RoundRules(ReaderRules):
    """One round per group at a time; each step has a deadline; a late reply answers nothing."""

    def reload(self) -> list[Command]:
        """Reads the store again; until then only what arrives is noted. Not twice in a moment, lest a
        store that refuses for ever be asked in a loop without a breath."""
        if self.reload_sent:
            return []
        self.reloading = True
        if self.now_ms < self.reload_ms:
            return []  # the tick comes back to it
        self.reload_sent = True
        self.reload_ms = self.now_ms + self.config.round_again_ms
        return [Reload()]

    # ------------------------------------------------------------ beginning

    def begin_round(self, group: Group, reason: RoundReason, ask: CheckpointAsked | None = None) -> list[Command]:
        """Pauses every replica that can be reached. With one replica, its own ask is all that is
        needed: it is cut and paused already, and the round costs one write."""
        record = group.open
        if record is None or group.round is not None or group.voiding:
            return []
        awaiting = {replica.token for replica in group.running()}
        if not awaiting and not reason.closes_empty:
            return []
        number = self.next_round()
        group.round = CheckpointRound(number, record, reason, self.now_ms + self.config.pause_ms, awaiting)
        if ask is not None:
            group.round.take_ask(ask.ask.token, ask.ask.ref.number, ask.ask.positions)
        pause = PauseCommand(self.generation, number, self.config.lease_ms)
        pauses: list[Command] = [SendTask(token, pause) for token in sorted(group.round.awaiting)]
        return [*pauses, *self.advance_round(group)]

    def on_checkpoint_asked(self, event: CheckpointAsked) -> list[Command]:
        found = self.find(event.ask.token)
        if found is None:
            return []
        group, replica = found
        if group.open is None or group.open.ref != event.ask.ref:
            return self.tell(group, replica)  # saved already: the answer was lost
        group.take_exceptions(event.ask.ref.number, event.ask.parse_exceptions)
        if group.round is not None and group.round.step is RoundStep.TELLING:
            # The asker has filled the next sequence already, and stands still. Whoever has yet to take this end
            # is told it outside the round.
            group.round = None
        if group.round is not None:
            group.round.take_ask(replica.token, event.ask.ref.number, event.ask.positions)
            return self.advance_round(group)
        if self.now_ms < group.round_not_before_ms:
            return []
        return self.begin_round(group, self.reason_to_end(group) or RoundReason.LIMIT, event)

    def on_hand_off_asked(self, event: HandOffAsked) -> list[Command]:
        """As if each group's tasks had met a limit. Not while the store is read again, nor in a round already."""
        asked = [self.groups[epoch] for epoch in sorted(event.groups) if epoch in self.groups]
        ready = [group for group in asked if not self.reloading and self.now_ms >= group.round_not_before_ms]
        return [command for group in ready for command in self.begin_round(group, RoundReason.LIMIT)]

    def reason_to_end(self, group: Group) -> RoundReason | None:
        """Why the supervisor itself wants the open sequence ended."""
        if group.open is None:
            return None
        if group.release_reason:
            return RoundReason.RELEASE
        return RoundReason.CUT_OVER if group.open.spec_version != self.config.spec_version else None

    # ------------------------------------------------------------ steps

    def advance_round(self, group: Group) -> list[Command]:
        """Takes the step that replies or time allow."""
        round_ = group.round
        if round_ is None or (round_.awaiting and self.now_ms < round_.deadline_ms):
            return []
        match round_.step:
            case RoundStep.PAUSING:
                return self._end_pausing(group, round_)
            case RoundStep.SAVING:
                return []  # ends with the store's answer and nothing else
            case RoundStep.TELLING:
                group.round = None  # whoever was not reached is told again and again outside the round
                return []

    def _end_pausing(self, group: Group, round_: CheckpointRound) -> list[Command]:
        """Every replica reported, or time is up: go on with those that did; none did: give up."""
        round_.reported = group.reported
        silent = bool(round_.awaiting) and not round_.positions
        if silent or round_.is_void() or not self.is_heard_out(group, round_):
            return self._give_up(group, round_)
        end = round_.save()
        following = None if round_.reason is RoundReason.RELEASE else self.next_sequence()
        bad = group.parse_exceptions.get(round_.record.ref.number, 0)
        return [SealSequence(round_.record.ref, end, following, bad)]

    def next_sequence(self) -> NextSequence:
        return NextSequence(self.config.spec_version, self.wall_ms)

    def _give_up(self, group: Group, round_: CheckpointRound) -> list[Command]:
        """Void: everybody reads on. The pause's lease covers whoever misses this."""
        group.round = None
        group.round_not_before_ms = self.now_ms + self.config.round_again_ms
        resume = ResumeCommand(self.generation, round_.number)
        return [SendTask(replica.token, resume) for replica in group.running()]

    def on_sequence_sealed(self, event: SequenceSealed) -> list[Command]:
        """Saved: only now is anybody told."""
        if not event.records:
            return []
        group = self.groups.get(event.records[0].ref.group)
        if group is None:
            return []
        round_ = group.round
        number = round_.number if round_ is not None else self.next_round()
        group.take_records(event.records, number)
        self._replace_older(group)
        tokens = {replica.token for replica in group.running()}
        if round_ is not None and round_.step is RoundStep.SAVING:
            round_.tell(tokens, self.now_ms + self.config.tell_ms)
        told = [command for replica in group.running() for command in self.tell(group, replica)]
        return [*told, *self.advance_round(group)]

    @staticmethod
    def _replace_older(group: Group) -> None:
        """A task of an older protocol is adopted as it is and replaced at its next sequence end, so
        that an upgrade is a restart."""
        for replica in group.running():
            replica.leaving = replica.leaving or replica.attempt.protocol < PROTOCOL_VERSION

    # ------------------------------------------------------------ telling

    def tell(self, group: Group, replica: Replica) -> list[Command]:
        """Sends every saved fact of the group; repeating it is harmless."""
        if group.news is None or not replica.runs:
            return []
        replica.tell_ms = self.now_ms + self.config.retell_ms
        return [SendTask(replica.token, self.seal_command(group))]

    def tell_untold(self, group: Group) -> list[Command]:
        """Whoever has not confirmed the newest facts hears them again: told late is told all the same."""
        late = [r for r in group.running() if r.told != group.news and self.now_ms >= r.tell_ms]
        return [command for replica in late for command in self.tell(group, replica)]

    # ------------------------------------------------------------ replies

    def on_task_answered(self, event: TaskAnswered) -> list[Command]:
        found = self.find(event.token)
        if found is None:
            return []
        group, replica = found
        replica.heard_ms = self.now_ms
        replica.left = replica.left or isinstance(event.command, StopCommand)
        round_ = group.round
        if isinstance(event.command, PauseCommand):
            if event.report is None or round_ is None or event.command.generation != self.generation:
                return []
            group.take_exceptions(event.report.sequence, event.report.parse_exceptions)
            return self.advance_round(group) if round_.take_report(replica.token, event.report) else []
        if isinstance(event.command, SealCommand):
            self._note_told(group, replica, event.command)
            if round_ is not None and round_.step is RoundStep.TELLING and event.command.round == round_.number:
                round_.awaiting.discard(replica.token)
                return self.advance_round(group)
        return []

    def _note_told(self, group: Group, replica: Replica, command: SealCommand) -> None:
        last = command.sequences[-1]
        news = (last.ref.number, last.start, last.end)
        if news == group.news:
            replica.told = news

    def on_task_silent(self, event: TaskSilent) -> list[Command]:
        """Not delivered. Within its deadline a step tries again by time, not at once: an end at the next tick, for
        who has not heard it stands still."""
        found = self.find(event.token)
        if found is None:
            return []
        group, replica = found
        if isinstance(event.command, SealCommand) and self.now_ms - replica.heard_ms < self.config.silence_ms:
            replica.tell_ms = self.now_ms
        if not isinstance(event.command, PauseCommand):
            return []
        round_ = group.round
        if round_ is None or round_.number != event.command.round or round_.step is not RoundStep.PAUSING:
            return []
        only = round_.awaiting == {event.token} and round_.positions
        return self._end_pausing(group, round_) if only else []

    def leave_round(self, group: Group, token: str) -> list[Command]:
        """An attempt ended: nobody waits for it any more. What it reported was read, and stays."""
        if group.round is None:
            return []
        group.round.awaiting.discard(token)
        return self.advance_round(group)
