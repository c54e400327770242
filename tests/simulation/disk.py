"""A task's modelled appenderator: hydrants of (partition, offset), spills, and what a crash leaves."""

from __future__ import annotations

from dataclasses import dataclass, field

from ingest.offsets import OffsetMap
from ingest.task.messages import Run, Totals

ROW_BYTES = 10
Row = tuple[int, int]


@dataclass(slots=True)
class Hydrant:
    """Rows of one sequence read together; ``low``/``high`` are its half-open range per partition."""

    sequence: int
    low: dict[int, int] = field(default_factory=dict)
    high: dict[int, int] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    def copy(self) -> Hydrant:
        return Hydrant(self.sequence, dict(self.low), dict(self.high), list(self.rows))

    def append(self, run: Run, rows: list[Row]) -> None:
        self.low.setdefault(run.partition, run.first)
        self.high[run.partition] = run.end
        self.rows += rows

    def passes(self, end: OffsetMap) -> bool:
        return any(high > end[p] for p, high in self.high.items())

    def follows(self, positions: dict[int, int]) -> bool:
        """Whether it lies past what will be read again in some partition."""
        return any(p in positions and high > positions[p] for p, high in self.high.items())


@dataclass(slots=True)
class Store:
    """All hydrants of one task; ``open`` are the buffers still written to, per sequence; ``bad`` the stream's
    bad records."""

    hydrants: list[Hydrant] = field(default_factory=list)
    open: dict[int, Hydrant] = field(default_factory=dict)
    bad: set[Row] = field(default_factory=set)

    def append(self, sequence: int, run: Run, rows: list[Row]) -> None:
        buffer = self.open.get(sequence)
        if buffer is None:
            buffer = self.open[sequence] = Hydrant(sequence)
            self.hydrants.append(buffer)
        buffer.append(run, rows)

    def cut(self, sequence: int) -> None:
        self.open.pop(sequence, None)

    def spilled(self) -> list[Hydrant]:
        """Copies of everything held."""
        return [hydrant.copy() for hydrant in self.hydrants]

    def spill(self) -> list[Hydrant]:
        """What a crash after this moment leaves."""
        self.open.clear()
        return [hydrant.copy() for hydrant in self.hydrants]

    def drop(self, sequence: int) -> None:
        self.open.pop(sequence, None)
        self.hydrants = [h for h in self.hydrants if h.sequence != sequence]

    def drop_past(self, sequence: int, end: OffsetMap, position: OffsetMap) -> OffsetMap:
        """Drops whole hydrants that pass ``end``, and those read after what is dropped with them;
        returns where to read on, per partition of the sequence."""
        self.open.pop(sequence, None)
        mine = [h for h in self.hydrants if h.sequence == sequence]
        back: dict[int, int] = {}
        dropped: list[Hydrant] = []
        while True:
            more = [h for h in mine if h not in dropped and (h.passes(end) or h.follows(back))]
            if not more:
                break
            dropped += more
            for hydrant in more:
                for p, low in hydrant.low.items():
                    back[p] = min(low, back.get(p, low))
        self.hydrants = [h for h in self.hydrants if not any(h is d for d in dropped)]
        return OffsetMap((p, min(back.get(p, o), end[p])) for p, o in position.items())

    def rows(self, sequence: int) -> list[Row]:
        return [row for h in self.hydrants if h.sequence == sequence for row in h.rows]

    def totals(self, sequence: int) -> Totals:
        rows = self.rows(sequence)
        bad = sum(row in self.bad for row in rows) if self.bad else 0
        return Totals(len(rows), len(rows), len(rows) * ROW_BYTES, self.held_bytes(), bad)

    def held_bytes(self) -> int:
        return sum(len(h.rows) for h in self.hydrants) * ROW_BYTES

    def positions(self) -> dict[int, OffsetMap]:
        """How far the hydrants of each sequence reach (partitions with rows only)."""
        reached: dict[int, dict[int, int]] = {}
        for hydrant in self.hydrants:
            into = reached.setdefault(hydrant.sequence, {})
            for p, high in hydrant.high.items():
                into[p] = max(high, into.get(p, 0))
        return {number: OffsetMap(into) for number, into in reached.items()}
