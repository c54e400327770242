"""The shells around the machines, joined in memory: specs become tasks, records become published rows, exactly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ingest.errors import StoreUnreachable
from ingest.metadata.memory import StoreHooks
from ingest.offsets import OffsetMap
from ingest.overlord.changing import WrongState
from ingest.task.messages import TaskStatus
from segments.errors import StorageUnavailable
from tests.in_process import NOON_MS, System, chain_is_whole, click, eventually, spec


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    found = System(tmp_path)
    yield found
    found.stop()


@pytest.mark.parametrize("replicas", [1, 2])
def test_records_become_published_rows_by_checkpoints(system: System, replicas: int) -> None:
    system.stream.create_topic("clicks", 3)
    system.start(workers=2)
    for partition in range(3):
        system.stream.append("clicks", partition, [click(n) for n in range(1_000)])
    system.overlord.submit(spec(maxRowsPerSegment=300, replicas=replicas))
    eventually(lambda: system.rows_published() >= 2_700, 40)
    eventually(lambda: system.records_read() == 3_000)
    chain_is_whole(system)
    assert all(row.rows_stored <= 300 for row in system.ledger())
    system.overlord.suspend("clicks")
    eventually(lambda: system.rows_published() == 3_000, 20)
    chain_is_whole(system)
    eventually(lambda: not system.tasks(), 20, "tasks end after a suspend")
    assert system.overlord.status("clicks")["payload"]["state"] == "SUSPENDED"


def test_a_killed_task_is_replaced_and_no_row_is_lost_or_doubled(system: System) -> None:
    system.stream.create_topic("clicks", 2)
    system.start()
    system.overlord.submit(spec(maxRowsPerSegment=500))
    system.stream.append("clicks", 0, [click(n) for n in range(750)])
    eventually(lambda: system.rows_published() >= 500)
    victim = system.tasks()[0]
    victim.stop()
    system.stream.append("clicks", 1, [click(n) for n in range(750)])
    eventually(lambda: system.rows_published() >= 1_000, 30)
    eventually(lambda: system.records_read() == 1_500)
    system.overlord.suspend("clicks")
    eventually(lambda: system.rows_published() == 1_500, 30)
    chain_is_whole(system)


def test_a_new_leader_goes_on_with_running_tasks(system: System) -> None:
    system.stream.create_topic("clicks", 1)
    system.start()
    system.overlord.submit(spec(maxRowsPerSegment=100))
    system.stream.append("clicks", 0, [click(n) for n in range(150)])
    eventually(lambda: system.rows_published() == 100)
    tokens = {task.task.token for task in system.tasks()}
    system.overlord.stop()
    system.stream.append("clicks", 0, [click(n) for n in range(100)])
    system.overlord = system.new_overlord("overlord-2")
    system.overlord.start()
    # A limit that is reached while nobody leads ends the sequence late: reading does not wait.
    eventually(lambda: system.rows_published() in (200, 250), 30)
    assert {task.task.token for task in system.tasks()} == tokens, "adopted, not replaced"
    chain_is_whole(system)


def test_status_tells_tasks_offsets_and_lag(system: System) -> None:
    system.stream.create_topic("clicks", 1)
    system.start()
    system.overlord.submit(spec())
    system.stream.append("clicks", 0, [click(n) for n in range(10)] + [b"not json"])
    eventually(lambda: system.overlord.status("clicks")["payload"]["activeTasks"])
    eventually(lambda: system.look() and system.overlord.status("clicks")["payload"]["latestOffsets"] == {"0": 11})
    eventually(lambda: system.overlord.status("clicks")["payload"]["aggregateLag"] == 0)
    payload = system.overlord.status("clicks")["payload"]
    assert (payload["state"], payload["healthy"], payload["partitions"]) == ("RUNNING", True, 1)
    (active,) = payload["activeTasks"]
    assert active["currentOffsets"] == {"0": 11}
    eventually(lambda: system.overlord.parse_errors("clicks"))
    (group,) = system.overlord.stats("clicks").values()
    (totals,) = group.values()
    assert totals["totals"]["buildSegments"]["processed"] == 10
    assert totals["totals"]["buildSegments"]["unparseable"] == 1


def test_a_database_that_is_away_stops_no_reading_and_loses_nothing(system: System) -> None:
    system.stream.create_topic("clicks", 1)
    system.start()
    system.overlord.submit(spec(maxRowsPerSegment=200))
    system.stream.append("clicks", 0, [click(n) for n in range(100)])
    eventually(lambda: system.records_read() == 100)

    def away(method: str) -> None:
        raise StoreUnreachable(f"{method}: the database is away", effect_known_absent=True)

    system.store.hooks = StoreHooks(before_commit=away)
    system.stream.append("clicks", 0, [click(n) for n in range(90)])
    eventually(lambda: system.records_read() == 190, what="reading goes on")
    system.stream.append("clicks", 0, [click(n) for n in range(310)])
    eventually(lambda: system.records_read() == 200, what="a limit is reached, nobody can agree on an end")
    system.store.hooks = StoreHooks()
    eventually(lambda: system.rows_published() == 400, 40)
    chain_is_whole(system)


def test_a_lost_commit_reply_neither_loses_nor_doubles(system: System) -> None:
    system.stream.create_topic("clicks", 1)
    system.start()
    lost: set[str] = set()

    def lose_once(method: str) -> None:
        if method not in lost:
            lost.add(method)
            raise StoreUnreachable(f"{method}: the reply was lost", effect_known_absent=False)

    system.store.hooks = StoreHooks(after_commit=lose_once)
    eventually(lambda: system.overlord.is_leading)
    with suppress(StoreUnreachable):
        system.overlord.submit(spec(maxRowsPerSegment=100))
    system.overlord.submit(spec(maxRowsPerSegment=100))
    system.stream.append("clicks", 0, [click(n) for n in range(450)])
    eventually(lambda: system.rows_published() == 400, 40)
    chain_is_whole(system)
    assert {"seal", "publish", "create_attempt", "stage", "open_group"} <= lost


def test_deep_storage_that_is_away_is_tried_again_on_new_paths(system: System) -> None:
    system.stream.create_topic("clicks", 1)
    system.start()
    system.storage.fail_next("push", StorageUnavailable("the bucket is away"), times=2)
    system.overlord.submit(spec(maxRowsPerSegment=100))
    system.stream.append("clicks", 0, [click(n) for n in range(150)])
    eventually(lambda: system.rows_published() == 100)
    (row,) = system.store.segments("clicks", None, 10, False)
    assert system.storage.exists(row.segment.load_spec)
    assert str(row.segment.load_spec["key"]).endswith("-3.parquet"), "each try has a path of its own"


def test_a_recreated_topic_turns_the_supervisor_unhealthy_by_name(system: System) -> None:
    system.stream.create_topic("clicks", 1)
    system.start()
    system.overlord.submit(spec())
    system.stream.append("clicks", 0, [click(n) for n in range(10)])
    eventually(lambda: system.records_read() == 10)
    system.stream.delete_topic("clicks")
    system.stream.create_topic("clicks", 1)
    eventually(lambda: system.look() and not system.overlord.status("clicks")["payload"]["healthy"])
    payload = system.overlord.status("clicks")["payload"]
    assert "clicks" in payload["stateReason"]
    assert system.committed() == OffsetMap({0: 0}), "nothing is skipped"


def test_a_new_partition_is_read_from_its_first_record(system: System) -> None:
    system.stream.create_topic("clicks", 1)
    system.start()
    posted = spec(maxRowsPerSegment=1_000)
    posted["spec"]["ioConfig"]["useEarliestOffset"] = False
    system.stream.append("clicks", 0, [click(n) for n in range(50)])
    system.overlord.submit(posted)
    eventually(lambda: system.tasks() and system.committed() == OffsetMap({0: 50}), what="latest, as a number")
    system.stream.add_partitions("clicks", 2)
    system.stream.append("clicks", 1, [click(n) for n in range(50)])
    eventually(lambda: system.look() and system.committed().get(1) == 0)

    def read() -> dict[int, int]:
        return {p: o for task in system.tasks() for p, o in task.runner.view.positions.items()}

    eventually(lambda: read().get(1) == 50, 20)


def test_another_topic_is_taken_up_only_when_no_offset_of_the_old_one_is_in_use(system: System) -> None:
    for topic, count in (("clicks", 150), ("taps", 70)):
        system.stream.create_topic(topic, 1)
        system.stream.append(topic, 0, [click(n) for n in range(count)])
    system.start()
    system.overlord.submit(spec(maxRowsPerSegment=100))
    eventually(lambda: system.rows_published() == 100)
    with pytest.raises(WrongState, match="suspend it"):
        system.overlord.submit(spec("taps", maxRowsPerSegment=100))
    system.overlord.suspend("clicks")
    eventually(lambda: system.rows_published() == 150 and not system.store.groups("clicks"))
    system.overlord.submit(spec("taps", maxRowsPerSegment=70))
    eventually(lambda: system.rows_published() == 220, 20, "the new topic is read from its start")
    assert [(row.topic, row.start, row.end) for row in system.ledger()][-1:] == [
        ("taps", OffsetMap({0: 0}), OffsetMap({0: 70}))
    ]


def test_bytes_at_their_bound_pause_reading_until_storage_is_back(system: System) -> None:
    system.held_bytes_max = 12_000
    system.stream.create_topic("clicks", 1)
    system.start()
    system.storage.fail_next("push", StorageUnavailable("the bucket is away"), times=10_000)
    system.overlord.submit(spec(maxRowsPerSegment=100))
    system.stream.append("clicks", 0, [click(n) for n in range(1_000)])
    eventually(lambda: [t for t in system.tasks() if t.runner.view.status is TaskStatus.BACK_PRESSURE])
    assert system.records_read() < 1_000, "it stands still before the end"
    beats = system.overlord.leading().runner("clicks")
    assert beats is not None
    eventually(lambda: any(beat.status == "back_pressure" for beat in beats.view().beats.values()))
    system.storage.heal()
    eventually(lambda: system.rows_published() == 1_000, 40)
    chain_is_whole(system)


def test_lag_in_time_is_told_by_partition_where_the_spec_asks_for_it(system: System) -> None:
    system.stream.create_topic("clicks", 2)
    system.start(workers=0)
    posted = spec()
    posted["spec"]["ioConfig"]["emitTimeLagMetrics"] = True
    for second in range(3):
        system.stream.append("clicks", 0, [click(second)], timestamp_ms=NOON_MS + 1_000 * second)
    system.overlord.submit(posted)
    term = system.overlord.leading()
    eventually(lambda: system.look() and term.time_lags().get("clicks"))
    payload = system.overlord.status("clicks")["payload"]
    assert (payload["minimumLagMillis"], payload["aggregateLagMillis"]) == ({"0": 2_000, "1": 0}, 2_000)
    system.overlord.submit(spec())
    eventually(lambda: "minimumLagMillis" not in system.overlord.status("clicks")["payload"])


def test_a_quiet_stream_ends_its_tasks_and_what_comes_starts_them_again(system: System) -> None:
    system.stream.create_topic("clicks", 1)
    system.start()
    posted = spec()
    posted["spec"]["ioConfig"]["idleConfig"] = {"enabled": True, "inactiveAfterMillis": "100"}
    system.overlord.submit(posted)
    system.stream.append("clicks", 0, [click(1)])

    def state() -> str:
        system.look()
        return str(system.overlord.status("clicks")["payload"]["state"])

    eventually(lambda: state() == "IDLE", what="everything is read and nothing comes")
    eventually(lambda: not system.tasks(), what="what was read is published, and its task ends")
    assert system.rows_published() == 1
    assert system.overlord.status("clicks")["payload"]["aggregateLag"] == 0
    system.stream.append("clicks", 0, [click(n) for n in range(1_000)])
    eventually(lambda: state() == "RUNNING", what="something came")
    eventually(lambda: system.look() and system.rows_published() == 1_001, what="read, published, and quiet again")
    chain_is_whole(system)
