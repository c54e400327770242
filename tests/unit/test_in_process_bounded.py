"""A bounded range, joined in memory: read from its start to its end, published, completed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ingest.offsets import OffsetMap
from ingest.overlord.changing import WrongState
from tests.in_process import System, chain_is_whole, click, eventually, spec


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    found = System(tmp_path)
    found.stream.create_topic("clicks", 2)
    for partition in (0, 1):
        found.stream.append("clicks", partition, [click(n) for n in range(100)])
    found.start()
    yield found
    found.stop()


def bounded(starts: dict[str, Any], ends: dict[str, Any], **tuning: Any) -> dict[str, Any]:
    posted = spec(**tuning)
    posted["spec"]["ioConfig"]["boundedStreamConfig"] = {"startSequenceNumbers": starts, "endSequenceNumbers": ends}
    return posted


def elsewhere() -> dict[str, Any]:
    """Of another topic, which is not read for now."""
    posted = spec()
    posted["spec"]["ioConfig"]["topic"] = "views"
    return posted | {"suspended": True}


def state(system: System) -> str:
    system.look()
    return str(system.overlord.status("clicks")["payload"]["state"])


def complete(system: System) -> None:
    eventually(lambda: state(system) == "COMPLETED")
    eventually(lambda: not system.tasks(), what="its tasks have ended")


def test_a_range_is_read_from_its_start_to_its_end_published_and_completed(system: System) -> None:
    system.overlord.submit(bounded({"0": 10, "1": 0}, {"0": 60, "1": 20}, maxRowsPerSegment=30))
    complete(system)
    assert system.committed() == OffsetMap({0: 60, 1: 20}) and system.rows_published() == 70
    payload = system.overlord.status("clicks")["payload"]
    assert (payload["healthy"], payload["aggregateLag"], payload["partitions"]) == (True, 0, 2)
    system.stream.append("clicks", 0, [click(n) for n in range(50)])
    system.stream.truncate("clicks", 0, 120)
    assert state(system) == "COMPLETED", "what comes and goes beyond the end is nothing to it"
    assert system.rows_published() == 70


def test_it_waits_for_records_up_to_its_end_that_have_not_come_yet(system: System) -> None:
    system.overlord.submit(bounded({"0": 90}, {"0": 110}))
    eventually(lambda: [t.runner.view.positions for t in system.tasks()] == [OffsetMap({0: 100})])
    eventually(lambda: state(system) == "RUNNING")
    system.stream.append("clicks", 0, [click(n) for n in range(50)])
    complete(system)
    assert system.committed() == OffsetMap({0: 110}) and system.rows_published() == 20


def test_an_empty_range_is_complete_at_once_and_a_new_leader_leaves_it_so(system: System) -> None:
    system.overlord.submit(bounded({"1": 40}, {"1": 40}))
    complete(system)
    system.overlord.stop()
    system.overlord = system.new_overlord("overlord-2")
    system.overlord.start()
    eventually(lambda: system.overlord.is_leading)
    complete(system)
    assert system.ledger() == []


def test_later_ends_are_read_on_to_and_other_starts_are_refused(system: System) -> None:
    system.overlord.submit(bounded({"0": 10}, {"0": 20}))
    complete(system)
    with pytest.raises(WrongState, match="from other offsets"):
        system.overlord.submit(bounded({"0": 0}, {"0": 20}))
    system.overlord.submit(bounded({"0": 10}, {"0": 50}))
    eventually(lambda: system.look() and system.rows_published() == 40)
    complete(system)
    chain = [(row.start[0], row.end[0]) for row in system.ledger()]
    assert chain == [(10, 20), (20, 50)]
    eventually(lambda: not system.store.groups("clicks"))
    system.overlord.submit(elsewhere())
    with pytest.raises(WrongState, match="from other offsets"):
        system.overlord.submit(bounded({"0": 0}, {"0": 60}))
    system.overlord.submit(bounded({"0": 10}, {"0": 60}))
    eventually(lambda: system.look() and system.rows_published() == 50)


def test_a_range_beside_offsets_that_are_stored_is_refused(system: System) -> None:
    system.overlord.submit(spec())
    eventually(lambda: system.records_read() == 200)
    with pytest.raises(WrongState, match="under another id"):
        system.overlord.submit(bounded({"0": 0}, {"0": 20}))


def test_lower_ends_wait_until_nobody_reads_up_to_the_old_ones(system: System) -> None:
    system.overlord.submit(bounded({"0": 0}, {"0": 500}))
    eventually(lambda: system.records_read() == 100)
    with pytest.raises(WrongState, match="post lower ones"):
        system.overlord.submit(bounded({"0": 0}, {"0": 50}))
    system.overlord.suspend("clicks")
    eventually(lambda: not system.tasks() and not system.store.groups("clicks"))
    system.overlord.submit(bounded({"0": 0}, {"0": 50}))
    complete(system)
    assert system.committed() == OffsetMap({0: 100}), "what was published stays"
    chain_is_whole(system)


def test_a_reset_reads_the_range_again(system: System) -> None:
    system.overlord.submit(bounded({"0": 70, "1": 95}, {"0": 90, "1": 100}))
    complete(system)
    assert system.overlord.reset("clicks") == OffsetMap({0: 70, 1: 95})
    eventually(lambda: system.look() and system.rows_published() == 50)
    complete(system)
