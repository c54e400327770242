"""One sequence as a task holds it: how far it was read, and how far on its way out it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from ingest.offsets import OffsetMap
from ingest.protocol import SequenceRecord, SequenceState
from ingest.task.messages import Run, Totals


class SequencePhase(Enum):
    """Life of a sequence inside one task."""

    READING = "reading"  # open, or its saved end is not reached yet
    COMPLETE = "complete"  # read to its saved end; waits for its turn, its committer or a retry
    PUBLISHING = "publishing"  # on the publish executor
    PUBLISHED = "published"  # its ledger row is known; held until query nodes have acknowledged it


@dataclass(slots=True)
class Sequence:
    """``position`` is next-to-read per partition, at least the start and, once sealed, at most the end."""

    record: SequenceRecord
    position: OffsetMap
    opened_ms: int
    phase: SequencePhase = SequencePhase.READING
    totals: Totals = field(default_factory=Totals)
    version: int = 0
    pushed: bool = False
    tries: int = 0
    not_before_ms: int = 0

    @property
    def number(self) -> int:
        return self.record.ref.number

    @property
    def is_open(self) -> bool:
        return self.record.state is SequenceState.OPEN

    @property
    def is_read(self) -> bool:
        """Whether anything was read into it."""
        return self.position != self.record.start

    @property
    def is_complete(self) -> bool:
        return self.record.end is not None and self.position.reached(self.record.end)

    @property
    def passes_end(self) -> bool:
        """Whether it was read past its saved end in any partition (told late, PR-9)."""
        end = self.record.end
        return end is not None and any(self.position[p] > o for p, o in end.items())

    def wants(self, partition: int) -> bool:
        """Whether the next record of ``partition`` may still belong here."""
        end = self.record.end
        return end is None or self.position[partition] < end[partition]

    def take(self, runs: tuple[Run, ...], totals: Totals) -> None:
        """Moves the position over ``runs``; each must begin at it and stay below the end (TK-1)."""
        end = self.record.end
        moves: dict[int, int] = {}
        for run in runs:
            at = moves.get(run.partition, self.position[run.partition])
            assert run.first == at < run.end, f"run {run} does not start at {at} of sequence {self.record.ref.name}"
            assert end is None or run.end <= end[run.partition], f"run {run} passes the end of {self.record.ref.name}"
            moves[run.partition] = run.end
        self.position = self.position.with_(moves)
        self.totals = totals


def reader_positions(sequences: list[Sequence]) -> OffsetMap:
    """Where to read on per partition: the first sequence that still wants it, else past the last one."""
    positions: dict[int, int] = {}
    for sequence in sequences:
        for partition, offset in sequence.position.items():
            known = positions.get(partition)
            if known is None or not any(
                earlier.wants(partition) for earlier in sequences if earlier.number < sequence.number
            ):
                positions[partition] = offset
    return OffsetMap(positions)
