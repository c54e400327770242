"""How a task learns of sequences: opened, sealed, raised, published, closed or voided by the store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ingest.offsets import OffsetMap
from ingest.protocol import SequenceRecord, SequenceState
from ingest.task.machine_state import TaskState
from ingest.task.messages import (
    Command,
    Discard,
    DropPast,
    Dropped,
    EndRaised,
    OpenSequence,
    RaiseEnd,
    RereadImpossible,
    Seek,
    Totals,
)
from ingest.task.sequence import Sequence, SequencePhase


class SequenceRules(TaskState):
    """Facts of the store only move a sequence forwards, so that late and repeated copies are harmless."""

    def learn(self, records: Iterable[SequenceRecord]) -> list[Command]:
        """Takes over saved records; the order of calls and their repetition do not matter."""
        commands: list[Command] = []
        self.has_gap = False
        for record in sorted(records, key=lambda record: record.ref.number):
            known = self.sequences.get(record.ref.number)
            if known is not None:
                commands += self._learn_known(known, record)
            elif record.ref.number > self.last_number:
                commands += self._learn_new(record)
            if record.state is SequenceState.PUBLISHED:
                self._learn_earlier_published(record)
            if record.released and record.ref.number >= self.last_number:
                self.released = True
        return commands

    def _learn_earlier_published(self, record: SequenceRecord) -> None:
        """Offsets move in order: what comes before a published sequence is published, at a version not
        above its own. Else a lagging task would skip the later one and read on in the earlier."""
        for earlier in self.in_order():
            if earlier.number < record.ref.number and earlier.record.state is SequenceState.SEALED:
                earlier.record = replace(earlier.record, state=SequenceState.PUBLISHED)
                earlier.version = earlier.version or record.version

    def _learn_new(self, record: SequenceRecord) -> list[Command]:
        """The successor of the last known sequence; one that is done with needs nothing any more."""
        number = record.ref.number
        before = self.sequences.get(self.last_number)
        if self.last_number >= 0 and (number != self.last_number + 1 or (before is not None and before.is_open)):
            # What lies between was closed empty, published or not told: the store knows, and is asked.
            self.has_gap = True
            return []
        if before is not None and before.record.end != record.start:
            self.has_gap = True  # an end was raised: this record or the one before it is outdated
            return []
        self.last_number = number
        self.last_positions = record.start
        waits = record.state in (SequenceState.OPEN, SequenceState.SEALED)
        if waits or (record.state is SequenceState.PUBLISHED and number in self.restored_numbers):
            self.sequences[number] = Sequence(record, record.start, self.now_ms, version=record.version)
            return [OpenSequence(record)]
        self.dropped_number = max(self.dropped_number, number)
        self.dropped_through = max(self.dropped_through, record.version)
        return []

    def _learn_known(self, known: Sequence, record: SequenceRecord) -> list[Command]:
        if record.state is SequenceState.VOID:
            return self._give_up_from(known.number)
        if record.end is None:
            return []
        commands: list[Command] = []
        if known.record.end is None:
            known.record = record
            commands += self._drop_what_passes(known)
        elif known.record.end != record.end and record.end.reached(known.record.end):
            commands += self._extend(known, record)
        if record.state is SequenceState.PUBLISHED:
            known.record = record
            known.version = max(known.version, record.version)
        return commands

    def _drop_what_passes(self, sequence: Sequence) -> list[Command]:
        """Told an end below the position: the hydrants past it go, whole, and are read again (PR-9)."""
        end = sequence.record.end
        if end is None or not sequence.passes_end:
            return []
        self.rewinding.add(sequence.number)
        return [DropPast(sequence.number, end)]

    def _extend(self, known: Sequence, record: SequenceRecord) -> list[Command]:
        """The saved end was raised for a replica that could not read again (PR-9, last sentence)."""
        later = [s for s in self.in_order() if s.number > known.number]
        if known.number in self.rewinding:
            known.record = record
            return []
        if any(s.is_read for s in later) or known.phase in (SequencePhase.PUBLISHING, SequencePhase.PUBLISHED):
            return self.finish(False, f"the end of {record.ref.name} was raised after reading on")
        known.record = record
        known.phase = SequencePhase.READING
        known.pushed = False
        return [*self._forget_unread(later), Seek(self.positions())]

    def _forget_unread(self, later: list[Sequence]) -> list[Command]:
        """Their start moved along with the raised end; they are learnt anew."""
        commands: list[Command] = []
        for sequence in later:
            self.sequences.pop(sequence.number)
            self.rewinding.discard(sequence.number)
            commands.append(Discard(sequence.number))
        if later:
            self.last_number = later[0].number - 1
        return commands

    def _give_up_from(self, number: int) -> list[Command]:
        """Voided: this sequence and all after it are read again by others (PR-13)."""
        commands: list[Command] = []
        for sequence in self.in_order():
            if sequence.number >= number:
                self.forget(sequence.number)
                commands.append(Discard(sequence.number))
        self.released = True
        return commands

    def skip_published(self) -> list[Command]:
        """A sequence another replica published before this one had read it: its rest is not needed."""
        commands: list[Command] = []
        skipped = False
        for sequence in self.in_order():
            end = sequence.record.end
            if sequence.number in self.rewinding or end is None:
                continue
            closed = sequence.record.state is SequenceState.CLOSED_EMPTY
            published = sequence.record.state is SequenceState.PUBLISHED
            if closed or (published and sequence.phase is SequencePhase.READING and not sequence.is_complete):
                skipped = skipped or not sequence.is_complete
                self.dropped_through = max(self.dropped_through, sequence.version)
                self.forget(sequence.number)
                commands.append(Discard(sequence.number))
        return [*commands, Seek(self.positions())] if skipped else commands

    # ------------------------------------------------------------ restore

    def restore(self, restored: dict[int, OffsetMap], totals: dict[int, Totals]) -> list[Command]:
        """Takes restored hydrants into the sequences known from the store, and drops what passes an end
        or what does not follow from the sequence before."""
        commands: list[Command] = []
        for number, position in sorted(restored.items()):
            sequence = self.sequences.get(number)
            if sequence is None:
                commands.append(Discard(number))
                continue
            sequence.totals = totals.get(number, Totals())
            sequence.position = sequence.record.start.with_(
                {p: o for p, o in position.items() if o > sequence.record.start.get(p, o)}
            )
            if self._starts_early(sequence):
                self.rewinding.add(number)
                commands.append(DropPast(number, sequence.record.start))
            else:
                commands += self._drop_what_passes(sequence)
        return commands

    def _starts_early(self, sequence: Sequence) -> bool:
        """Rows in a sequence whose predecessor's rows were not restored: they would be read out of turn."""
        return any(
            earlier.wants(p) and sequence.position[p] > sequence.record.start[p]
            for earlier in self.in_order()
            if earlier.number < sequence.number
            for p in sequence.position
        )

    # ------------------------------------------------------------ completions

    def on_dropped(self, event: Dropped) -> list[Command]:
        sequence = self.sequences.get(event.sequence)
        if sequence is None or event.sequence not in self.rewinding:
            return []
        self.rewinding.discard(event.sequence)
        end = sequence.record.end
        assert end is None or end.reached(event.positions), f"dropped to {event.positions}, past the end {end}"
        assert event.positions.reached(sequence.record.start), "dropped to before the start"
        sequence.position = event.positions
        sequence.totals = event.totals
        self.held_bytes = event.totals.held_bytes
        return [] if self.rewinding else [Seek(self.positions())]

    def on_reread_impossible(self, event: RereadImpossible) -> list[Command]:
        """What was dropped could not be read again: the saved end must come up to the position instead."""
        sequence = self.sequences.get(event.sequence)
        if sequence is None or event.sequence not in self.rewinding:
            return []
        if sequence.record.state is not SequenceState.SEALED:
            return self.finish(False, f"{sequence.record.ref.name} ends below what is still in the stream")
        return [RaiseEnd(sequence.record.ref, sequence.position)]

    def on_end_raised(self, event: EndRaised) -> list[Command]:
        sequence = self.sequences.get(event.ref.number)
        if sequence is None or event.ref.number not in self.rewinding:
            return []
        if event.record is None or event.record.end != sequence.position:
            return self.finish(False, f"{event.ref.name}: its end could not be raised to what was read")
        later = [s for s in self.in_order() if s.number > event.ref.number]
        if any(s.is_read for s in later):
            return self.finish(False, f"the end of {event.ref.name} was raised after reading on")
        sequence.record = event.record
        self.rewinding.discard(event.ref.number)
        commands = self._forget_unread(later)
        self.has_gap, self.learn_ms = bool(later), self.now_ms
        return commands if self.rewinding else [*commands, Seek(self.positions())]
