"""Another number of tasks, and a stop for bad records, on a whole system in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ingest.overlord.changing import WrongState
from tests.in_process import System, chain_is_whole, click, eventually, spec


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    found = System(tmp_path)
    yield found
    found.stop()


def feed(system: System, count: int, *partitions: int) -> None:
    for partition in partitions:
        system.stream.append("clicks", partition, [click(n) for n in range(count)])


def readers(system: System) -> list[tuple[int, ...]]:
    """The partition sets that are read now."""
    groups = system.store.groups("clicks")
    return sorted(g.partitions for g in groups if g.sequences and g.sequences[-1].end is None)


def payload(system: System) -> dict[str, Any]:
    found: dict[str, Any] = system.overlord.status("clicks")["payload"]
    return found


def test_tasks_are_added_and_taken_away_while_records_arrive(system: System) -> None:
    system.stream.create_topic("clicks", 4)
    system.start(2)
    system.overlord.submit(spec(taskCount=1, replicas=2))
    feed(system, 100, 0, 1, 2, 3)
    eventually(lambda: system.records_read() == 400)
    for count, sets in ((3, [(0, 1), (2,), (3,)]), (2, [(0, 1), (2, 3)]), (1, [(0, 1, 2, 3)])):
        system.overlord.submit(spec(taskCount=count, replicas=2))
        feed(system, 100, 0, 1, 2, 3)
        eventually(lambda sets=sets: readers(system) == sets, what=f"{count} groups")  # type: ignore[misc]
    eventually(lambda: system.records_read() == 1_600, 30, "the last group has read all that came meanwhile")
    system.overlord.suspend("clicks")
    eventually(lambda: system.rows_published() == 1_600, 30)
    chain_is_whole(system)


def test_without_lag_the_scaler_takes_tasks_away_one_by_one(system: System) -> None:
    posted = spec(taskCount=3)
    posted["spec"]["ioConfig"]["autoScalerConfig"] = {
        "enableTaskAutoScaler": True,
        "taskCountMin": 1,
        "taskCountMax": 4,
        "lagCollectionIntervalMillis": 100,
        "lagCollectionRangeMillis": 200,
        "scaleActionStartDelayMillis": 0,
        "scaleActionPeriodMillis": 200,
        "minTriggerScaleActionFrequencyMillis": 0,
        "scaleInThreshold": 10,
        "scaleOutThreshold": 100,
    }
    system.stream.create_topic("clicks", 3)
    system.start()
    system.overlord.submit(posted)
    feed(system, 50, 0, 1, 2)
    eventually(lambda: readers(system) == [(0, 1, 2)], 30, "one group is left")
    steps = [row.detail for row in system.store.audit("clicks", 20) if row.action == "scale"]
    assert [(step["from"], step["taskCount"]) for step in steps] == [(2, 1), (3, 2)]
    eventually(lambda: payload(system)["autoScaler"]["taskCount"] == 1)
    stored = system.store.supervisor("clicks")
    assert stored is not None and stored.version == 1 and stored.spec == posted, "the spec stays as it was posted"
    eventually(lambda: system.records_read() == 150)
    system.overlord.suspend("clicks")
    eventually(lambda: system.rows_published() == 150, 30)
    chain_is_whole(system)


def test_a_disk_at_its_reserve_ends_and_publishes_what_is_open_and_reads_no_further(system: System) -> None:
    system.stream.create_topic("clicks", 1)
    system.start()
    system.overlord.submit(spec())
    feed(system, 100, 0)
    eventually(lambda: system.records_read() == 100)
    system.disk_scarce = True
    eventually(lambda: system.committed().get(0) == 100, 30, "what was read is published")
    feed(system, 100, 0)
    [task] = system.tasks()
    eventually(lambda: "reserve" in str(task.runner.stream_error))
    assert system.records_read() == 100
    system.disk_scarce = False
    eventually(lambda: system.records_read() == 200, 30, "there is room again")


def stopped(system: System) -> None:
    """Two bad records where one is allowed; waits until all is at rest."""
    system.stream.create_topic("clicks", 1)
    system.start()
    system.overlord.submit(spec(maxParseExceptions=1))
    system.stream.append("clicks", 0, [click(1), b"{not json", click(2), b'{"at": 1780000000000, "n": "many"}'])
    eventually(lambda: not payload(system)["healthy"], what="two of one")
    eventually(lambda: system.committed().get(0) == 4 and not system.tasks(), 30, "published, and nobody reads")


def test_too_many_bad_records_stop_the_supervisor_until_it_is_resumed(system: System) -> None:
    stopped(system)
    found = payload(system)
    assert (found["state"], found["parseExceptions"]) == ("UNHEALTHY_TASKS", {"count": 2, "max": 1})
    assert "maxParseExceptions allows 1" in found["stateReason"] and "resume" in found["stateReason"]
    assert system.rows_published() == 3, "the good ones, and the one with a bad field"
    feed(system, 10, 0)
    record = system.overlord.resume("clicks")
    assert record.version == 2
    eventually(lambda: system.records_read() == 14, 30, "it reads on after the bad ones")
    eventually(lambda: payload(system)["healthy"] and payload(system)["parseExceptions"]["count"] == 0)


@pytest.mark.integration
def test_a_stopped_supervisor_starts_again_by_resume_or_by_its_spec(system: System) -> None:
    stopped(system)
    feed(system, 10, 0)
    record, _ = system.overlord.submit(spec(maxParseExceptions=1))
    assert record.version == 2, "the same spec, posted again, is a start"
    eventually(lambda: system.records_read() == 14, 30)
    with pytest.raises(WrongState):
        system.overlord.resume("clicks")
    system.stream.append("clicks", 0, [b"[", b"]"])
    eventually(lambda: not payload(system)["healthy"] and not system.tasks(), 30)
    assert system.overlord.resume("clicks").version == 3
    eventually(lambda: payload(system)["healthy"] and system.tasks(), 30)


@pytest.mark.integration
def test_the_next_leader_leaves_a_stopped_supervisor_alone(system: System) -> None:
    stopped(system)
    feed(system, 10, 0)
    system.overlord.stop()
    system.overlord = system.new_overlord("overlord-2")
    system.overlord.start()
    eventually(lambda: system.overlord.is_leading)
    eventually(lambda: not payload(system)["healthy"])
    assert payload(system)["parseExceptions"] == {"count": 2, "max": 1}
    assert not system.tasks() and system.committed().get(0) == 4
