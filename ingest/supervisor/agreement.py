"""One agreement on where a sequence ends: pause, take the furthest, save, tell (pure)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from ingest.offsets import OffsetMap, furthest
from ingest.protocol import PauseReport, SequenceRecord


class RoundStep(Enum):
    """Where a round stands; replies are taken only in the step that asked for them."""

    PAUSING = "pausing"
    SAVING = "saving"
    TELLING = "telling"


class RoundReason(Enum):
    """Why a sequence is ended. Those that ``closes_empty`` end it even if nothing was read (PR-10)."""

    LIMIT = "limit"  # a task asked: rows, bytes, time, disk
    CUT_OVER = "cut_over"  # a new spec version begins
    RELEASE = "release"  # suspend, terminate, reset, or another set of partitions

    @property
    def closes_empty(self) -> bool:
        return self is not RoundReason.LIMIT


@dataclass(slots=True)
class CheckpointRound:
    """A round over the open sequence ``record``.

    ``number`` grows over all rounds of a leader; with its generation it orders every command.
    ``awaiting`` are tokens whose answer to the present step is missing. ``reported`` is what any attempt,
    also one that ended, is known to have read of the sequence: it was answered to queries.
    """

    number: int
    record: SequenceRecord
    reason: RoundReason
    deadline_ms: int
    awaiting: set[str]
    step: RoundStep = RoundStep.PAUSING
    positions: dict[str, OffsetMap] = field(default_factory=dict)
    reported: OffsetMap = OffsetMap()
    end: OffsetMap | None = None

    def take_report(self, token: str, report: PauseReport) -> bool:
        """Takes a reply to the pause of this very round; False for anything late or strange.

        A replica that still knows only an earlier sequence counts as standing at the start: what it
        read past that sequence's end it will drop and read again.
        """
        if self.step is not RoundStep.PAUSING or report.round != self.number or token not in self.awaiting:
            return False
        self._take(token, report.sequence, report.positions)
        return True

    def take_ask(self, token: str, sequence: int, positions: OffsetMap) -> None:
        """The asker has cut its buffers and is paused: its ask is its report."""
        if self.step is RoundStep.PAUSING and sequence == self.record.ref.number:
            self._take(token, sequence, positions)

    def _take(self, token: str, sequence: int, positions: OffsetMap) -> None:
        self.awaiting.discard(token)
        self.positions[token] = positions if sequence == self.record.ref.number else self.record.start

    def agreed_end(self) -> OffsetMap:
        """Per partition the furthest of start and reported positions, never below the start (PR-10).

        What only a dead attempt had read is read again up to this end: closed below it, those rows would
        leave the answers until somebody reads the next sequence, if anybody does.
        """
        start = self.record.start
        known = (self.reported, *self.positions.values())
        return furthest(start, *(p.restrict(q for q in p if q in start) for p in known))

    def is_void(self) -> bool:
        """Nothing was read, and nobody needs the sequence to end all the same."""
        return self.agreed_end() == self.record.start and not self.reason.closes_empty

    def save(self) -> OffsetMap:
        """From pausing to saving; the end is fixed from here on (CK-2)."""
        assert self.step is RoundStep.PAUSING and self.end is None
        self.step = RoundStep.SAVING
        self.end = self.agreed_end()
        self.awaiting = set()
        return self.end

    def tell(self, tokens: set[str], deadline_ms: int) -> None:
        """From saving to telling."""
        assert self.step is RoundStep.SAVING
        self.step = RoundStep.TELLING
        self.awaiting = tokens
        self.deadline_ms = deadline_ms
