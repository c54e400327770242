"""A jump to the latest offsets: what is skipped is read by a second supervisor, each record once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ingest.errors import StoreUnreachable
from ingest.metadata.memory import StoreHooks
from ingest.metadata.records import AuditRow, DesiredState, ResetWish
from ingest.offsets import OffsetMap
from ingest.overlord.backfilling import CannotBackfill
from tests.in_process import System, ThreadWorker, click, eventually, spec


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    found = System(tmp_path)
    found.stream.create_topic("clicks", 2)
    found.start(workers=0)
    yield found
    found.stop()


def latest(**io: Any) -> dict[str, Any]:
    posted = spec()
    posted["spec"]["ioConfig"] |= {"useEarliestOffset": False, **io}
    return posted


def behind(system: System) -> None:
    """180 records wait, and nobody to read them."""
    system.overlord.submit(latest())
    eventually(lambda: state(system, "clicks") == "RUNNING")
    system.stream.append("clicks", 0, [click(n) for n in range(130)])
    system.stream.append("clicks", 1, [click(n) for n in range(50)])
    runner = system.overlord.leading().runner("clicks")
    assert runner is not None
    eventually(lambda: system.look() and runner.view().stream.log_ends == OffsetMap({0: 130, 1: 50}))


def state(system: System, supervisor: str) -> str:
    runner = system.overlord.leading().runner(supervisor)
    if runner is None:
        return "UNKNOWN"
    runner.look_now()
    return runner.view().health.state


def new_leader(system: System) -> None:
    system.overlord.stop()
    system.overlord = system.new_overlord("overlord-2")
    system.overlord.start()
    eventually(lambda: system.overlord.is_leading)


def each_record_once(system: System, later: str) -> None:
    """Both have published all, and their ranges fill every partition without gap or overlap."""
    system.workers = [ThreadWorker(system)]
    eventually(lambda: state(system, later) == "COMPLETED", what="the range is complete")
    system.stream.append("clicks", 0, [click(n) for n in range(5)])
    eventually(lambda: any(t.runner.view.positions.get(0) == 135 for t in system.tasks()), what="the first reads on")
    system.overlord.suspend("clicks")
    eventually(lambda: not system.tasks(), what="all is published")
    rows = system.ledger() + system.store.ledger(later, 0, 1_000)
    ranges = {(p, row.start[p], row.end[p]) for row in rows for p in row.start if row.start[p] < row.end[p]}
    for partition, end in ((0, 135), (1, 50)):
        at = 0
        for _, start, stop in sorted(r for r in ranges if r[0] == partition):
            assert start == at, ranges
            at = stop
        assert at == end, ranges
    assert sum(row.rows_stored for row in rows) == 185
    assert sum(row.rows_stored for row in system.ledger()) == 5


def test_the_first_goes_on_at_the_latest_offsets_and_a_second_reads_what_was_skipped(system: System) -> None:
    behind(system)
    generation = system.overlord.leading().generation
    odd = {"type": "of a later version"}  # is passed over
    system.store.put_supervisor(generation, "aside", "clicks", odd, DesiredState.RUNNING, 0)
    later = system.overlord.backfill("clicks", 2)
    eventually(lambda: not system.store.reset_wishes(None), what="it jumps")
    record = system.store.supervisor(later)
    assert record is not None and record.spec["id"] == later and record.spec["spec"]["ioConfig"]["taskCount"] == 2
    each_record_once(system, later)


def test_a_leader_that_ends_after_its_promise_leaves_the_rest_to_the_next(system: System) -> None:
    behind(system)
    later = system.overlord.backfill("clicks", None)
    new_leader(system)
    eventually(lambda: not system.store.reset_wishes(None), what="it jumps")
    each_record_once(system, later)


def _no_jump(method: str) -> None:
    if method == "carry_out_reset":
        raise StoreUnreachable("the leader ends before it", effect_known_absent=True)


def test_a_leader_that_ends_after_the_jump_leaves_a_range_that_the_next_one_has_read(system: System) -> None:
    behind(system)
    system.store.hooks = StoreHooks(before_commit=_no_jump)
    later = system.overlord.backfill("clicks", None)
    [wish] = system.store.reset_wishes(None)
    system.overlord.stop()
    system.store.hooks = StoreHooks()
    led = system.store.take_leadership("dies", "dies:1", system.store.leadership())
    assert led is not None
    audit = AuditRow(1, "clicks", "reset", {})
    system.store.carry_out_reset(led.generation, "clicks", "clicks", wish.wish_id, audit)
    system.store.resign(led.generation)
    new_leader(system)
    each_record_once(system, later)


CANNOT = [
    ({"useEarliestOffset": True}, None, "useEarliestOffset true"),
    ({"boundedStreamConfig": {"startSequenceNumbers": {"0": 0}, "endSequenceNumbers": {"0": 9}}}, None, "bounded"),
    ({"topic": None, "topicPattern": "clicks"}, None, "topicPattern"),
    ({}, 0, "backfillTaskCount: must be greater than 0"),
]


@pytest.mark.parametrize(("io", "count", "why"), CANNOT, ids=[row[2] for row in CANNOT])
def test_what_cannot_jump_is_told_why(system: System, io: dict[str, Any], count: int | None, why: str) -> None:
    system.overlord.submit(latest(**io))
    with pytest.raises(CannotBackfill, match=why):
        system.overlord.backfill("clicks", count)


def test_a_suspended_supervisor_does_not_jump(system: System) -> None:
    system.overlord.submit(latest() | {"suspended": True})
    eventually(lambda: state(system, "clicks") == "SUSPENDED")
    with pytest.raises(CannotBackfill, match="is SUSPENDED, not RUNNING"):
        system.overlord.backfill("clicks", None)
    assert system.store.reset_wishes(None) == list[ResetWish]()
