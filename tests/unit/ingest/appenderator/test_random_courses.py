"""Whatever the order of appends, cuts, drops, spills and restarts, every offset below the position is held once."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.appenderator.appenderator import Appenderator
from ingest.offsets import OffsetMap
from ingest.protocol import PartitionCounts
from ingest.spec import SupervisorSpec
from ingest.stream.supplier import Poll
from tests.searching import examples
from tests.unit.ingest.appenderator.rows import OPENED_MS, poll_of, record_of, spec_of
from tests.unit.ingest.appenderator.test_appenderator import live_rows, merged, published_rows

SPEC = spec_of(
    {
        "dimensionsSpec": {"dimensions": [{"type": "long", "name": "p"}, {"type": "long", "name": "o"}]},
        "granularitySpec": {"rollup": False, "segmentGranularity": "minute"},
    }
)
STEPS = st.lists(
    st.tuples(st.sampled_from(["append", "append", "append", "cut", "persist", "drop", "restart"]), st.integers(0, 30)),
    max_size=14,
)


def messages(partition: int, first: int, count: int) -> Poll:
    """Every seventh record is broken, every fifth a tombstone; times are spread over 18 minutes."""
    values: list[object] = []
    for offset in range(first, first + count):
        row = {"t": OPENED_MS + offset % 18 * 60_000, "p": partition, "o": offset}
        values.append(b"{" if offset % 7 == 3 else None if offset % 5 == 1 else row)
    return poll_of(values, first, partition)


def expected(positions: OffsetMap) -> list[tuple[int, int]]:
    return [(p, o) for p, end in positions.items() for o in range(end) if o % 7 != 3 and o % 5 != 1]


class Course:
    """A task's rows over several attempts, each in a directory of its own."""

    def __init__(self, root: Path, spec: SupervisorSpec) -> None:
        self._root, self._spec, self._attempt = root, spec, 0
        self.rows = Appenderator(root / "0", 7, "0")
        self.rows.open_sequence(record_of(start={0: 0, 1: 0}), spec)

    def step(self, action: str, number: int) -> None:
        positions = self.rows.positions(1)
        if action == "append":
            polls = [messages(p, positions[p], number // (p + 1)) for p in (0, 1) if number // (p + 1)]
            self.rows.append(1, polls)
        elif action == "cut":
            self.rows.cut(1)
        elif action == "persist":
            self.rows.persist()
        elif action == "drop":
            end = OffsetMap({p: max(0, position - number) for p, position in positions.items()})
            asked = self.rows.reread_from(1, end)
            assert self.rows.drop_past(1, end) == asked
            assert end.reached(asked)
        else:
            self._attempt += 1
            older, fresh = self._root / str(self._attempt - 1), self._root / str(self._attempt)
            self.rows = Appenderator(fresh, 7, str(self._attempt))
            if not self.rows.restore(older, {1: self._spec}):
                self.rows.open_sequence(record_of(start={0: 0, 1: 0}), self._spec)
            assert positions.reached(self.rows.positions(1))


@settings(max_examples=examples(8), deadline=None)
@given(STEPS)
def test_every_offset_below_the_position_is_held_once(steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        course = Course(Path(folder), SPEC)
        for action, number in steps:
            course.step(action, number)
            positions = course.rows.positions(1)
            assert sorted((row["p"], row["o"]) for row in live_rows(course.rows)) == expected(positions)
            assert course.rows.totals(1).rows == len(expected(positions))
        positions = course.rows.positions(1)
        result = merged(course.rows)
        assert sorted((row["p"], row["o"]) for row in published_rows(result)) == expected(positions)
        for partition, end in positions.items():
            counts = result.counts[partition]
            assert counts == PartitionCounts(
                good=sum(p == partition for p, _ in expected(positions)),
                unparseable=sum(o % 7 == 3 for o in range(end)),
                tombstones=sum(o % 7 != 3 and o % 5 == 1 for o in range(end)),
            )
        assert (0 if result.quarantine is None else result.quarantine.rows) == sum(
            counts.unparseable for counts in result.counts.values()
        )
