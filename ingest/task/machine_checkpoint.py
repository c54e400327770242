"""When a task asks for a checkpoint, how long it stays paused, and what ends a pause."""

from __future__ import annotations

from ingest.protocol import (
    CheckpointAsk,
    PauseCommand,
    PauseReport,
    ResumeCommand,
    SealCommand,
)
from ingest.task.machine_sequences import SequenceRules
from ingest.task.machine_state import Ask, Pause
from ingest.task.messages import (
    AskCheckpoint,
    AskSequences,
    CheckpointAnswered,
    Command,
    Cut,
    Reply,
    SequencesAnswered,
)
from ingest.task.sequence import Sequence, SequencePhase


class CheckpointRules(SequenceRules):
    """A pause is a lease: it ends by what it waits for, or by time, never by something older."""

    # ------------------------------------------------------------ asking

    def limit_reached(self, sequence: Sequence) -> str | None:
        """The reason why the open sequence should end now."""
        totals, limits = sequence.totals, self.limits
        if totals.segment_rows >= limits.segment_rows_max:
            return "rows"
        if totals.rows >= limits.sequence_rows_max:
            return "total_rows"
        if totals.sequence_bytes >= limits.sequence_bytes_max:
            return "bytes"
        if limits.period_ms and self.now_ms - sequence.opened_ms >= limits.period_ms:
            return "period"
        nothing_on_its_way = all(s is sequence or s.phase is SequencePhase.PUBLISHED for s in self.sequences.values())
        if self.under_pressure and nothing_on_its_way:
            return "disk"
        return None

    def ask_when_full(self) -> list[Command]:
        """Cuts, pauses and asks when a limit is reached; an empty sequence never ends by itself."""
        sequence = self.open_sequence
        busy = self.pause is not None or self.rewinding or not self.started or self.finished
        if sequence is None or busy or self.now_ms < self.ask_not_before_ms:
            return []
        reason = "stop" if self.stopping else self.limit_reached(sequence)
        if reason is None or not sequence.is_read:
            return []
        self.ask = Ask(sequence.number, reason)
        self._pause(self.generation, -1, self.limits.pause_lease_ms)
        return [Cut(sequence.number), *self.ask_again()]

    def ask_again(self) -> list[Command]:
        """The same question, with growing distance; the answer may have been lost."""
        sequence = self.open_sequence
        if self.ask is None or sequence is None or self.now_ms < self.ask.next_ms:
            return []
        wait_ms = min(self.limits.ask_again_ms << self.ask.tries, self.limits.ask_again_max_ms)
        self.ask.tries = min(self.ask.tries + 1, 16)
        self.ask.next_ms = self.now_ms + wait_ms
        bad = sequence.totals.parse_exceptions
        ask = CheckpointAsk(self.token, sequence.record.ref, sequence.position, self.ask.reason, bad)
        return [AskCheckpoint(ask)]

    def _pause(self, generation: int, round_number: int, lease_ms: int) -> None:
        self.pause = Pause(generation, round_number, self.now_ms + lease_ms)
        if self.paused_since_ms is None:
            self.paused_since_ms = self.now_ms

    def _resume(self) -> None:
        self.pause = None
        self.paused_since_ms = None
        self.ask = None

    # ------------------------------------------------------------ commands of the supervisor

    def is_stale(self, generation: int, round_number: int) -> bool:
        """Older than what was heard before: a cut-off leader, or a late copy (PR-23)."""
        return (generation, round_number) < (self.generation, self.round)

    def hear(self, generation: int, round_number: int) -> None:
        if (generation, round_number) > (self.generation, self.round):
            self.generation, self.round = generation, round_number

    def on_pause(self, command: PauseCommand) -> list[Command]:
        """Cuts and reports. A copy of a pause that is over must not begin it again."""
        heard_before = (command.generation, command.round) == (self.generation, self.round)
        pause = self.pause
        repeats = pause is not None and (pause.generation, pause.round) == (command.generation, command.round)
        if self.is_stale(command.generation, command.round) or (heard_before and not repeats):
            return [Reply(command, refused=f"generation {self.generation} round {self.round} was heard")]
        self.hear(command.generation, command.round)
        if self.rewinding or not self.started:
            return [Reply(command, refused="not reading: asking for or reading again saved sequences")]
        if not repeats:
            self._pause(command.generation, command.round, command.lease_ms)
        sequence = self.open_sequence
        bad = 0 if sequence is None else sequence.totals.parse_exceptions
        report = PauseReport(command.round, self.last_number, self.view().positions, bad)
        cut: list[Command] = [Cut(sequence.number)] if sequence is not None else []
        return [*cut, Reply(command, report=report)]

    def on_seal(self, command: SealCommand) -> list[Command]:
        """Facts are taken at any age of the round; only a round as new as the pause ends it."""
        if command.generation < self.generation:
            return [Reply(command, refused=f"generation {self.generation} was heard")]
        ends_pause = self._answers_pause(command.generation, command.round)
        self.hear(command.generation, command.round)
        commands = self.learn(command.sequences)
        if ends_pause:
            self._resume()
        return [*commands, *self.end_own_pause(), Reply(command)]

    def on_resume(self, command: ResumeCommand) -> list[Command]:
        if self.is_stale(command.generation, command.round):
            return [Reply(command, refused=f"generation {self.generation} round {self.round} was heard")]
        if self._answers_pause(command.generation, command.round):
            self._resume()
        self.hear(command.generation, command.round)
        return [Reply(command)]

    def _answers_pause(self, generation: int, round_number: int) -> bool:
        """Whether a message of this round ends the present pause (never one the task began itself)."""
        pause = self.pause
        return pause is not None and pause.round >= 0 and (generation, round_number) >= (pause.generation, pause.round)

    def end_own_pause(self) -> list[Command]:
        """What the task asked for is known: its sequence has an end, or is void. A round that another's ask began
        may have paused it meanwhile: that pause was for the same end, and need not wait to be told it."""
        if self.ask is not None and (self.open_sequence is None or self.open_sequence.number != self.ask.number):
            if self.pause is not None:
                self._resume()
            self.ask = None
        return []

    # ------------------------------------------------------------ answers and time

    def on_checkpoint_answered(self, event: CheckpointAnswered) -> list[Command]:
        if event.answer is None:
            return self._on_unheard(event)
        self.unheard = 0
        if event.answer.generation < self.generation:
            return []
        return [*self.learn(event.answer.sequences), *self.end_own_pause()]

    def _on_unheard(self, event: CheckpointAnswered) -> list[Command]:
        """No overlord answers: reading waits for none. What follows stays apart, as when a lease is over (PR-9)."""
        pause, ask = self.pause, self.ask
        if pause is None or pause.round >= 0 or ask is None or ask.number != event.ref.number or self.stopping:
            return []
        commands = self.read_on()
        self.ask_not_before_ms = self.now_ms + min(
            self.limits.ask_again_ms << min(self.unheard, 16), self.limits.ask_again_max_ms
        )
        self.unheard += 1
        return commands

    def on_sequences_answered(self, event: SequencesAnswered) -> list[Command]:
        """Ends a lapsed pause: either an end is known now, or reading goes on into separate hydrants."""
        if event.records is None:
            return []
        commands = self.learn(event.records)
        if self.pause is not None and self.pause.lapsed:
            return [*commands, *self.read_on()]
        return [*commands, *self.end_own_pause()]

    def check_lease(self) -> list[Command]:
        """The lease is over: first ask what was saved; without an answer in time, read on (PR-9)."""
        pause = self.pause
        if pause is None or self.now_ms < pause.until_ms:
            return []
        if pause.lapsed:
            return self.read_on()
        pause.lapsed = True
        pause.until_ms = self.now_ms + self.limits.ask_again_ms
        return [AskSequences(max(self.last_number, 0))]

    def read_on(self) -> list[Command]:
        """Nobody answered. What is read now stays apart, so that an end saved at the cut still fits."""
        self.ask_not_before_ms = self.now_ms + self.limits.ask_again_max_ms
        self._resume()
        sequence = self.open_sequence
        return [Cut(sequence.number)] if sequence is not None else []
