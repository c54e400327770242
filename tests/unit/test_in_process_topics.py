"""A supervisor of several topics, joined in memory: topics join, offsets are told by topic and partition."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ingest.offsets import OffsetMap
from ingest.overlord.changing import WrongState
from server.catalog import StoreCatalog
from tests.in_process import System, click, eventually, spec
from tests.unit.server.test_api import SUPERVISOR, World

STREAM = "/clicks-.*/"
TRAIL = "/siltstone/v1/supervisor/clicks"


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    found = System(tmp_path)
    yield found
    found.stop()


def pattern_spec(pattern: str = "clicks-.*", **tuning: Any) -> dict[str, Any]:
    posted = spec(**tuning)
    io = posted["spec"]["ioConfig"]
    del io["topic"]
    io["topicPattern"] = pattern
    return posted


def running(system: System, **settings: Any) -> None:
    """Two topics: clicks-eu of two partitions, clicks-us of one; `others` matches not."""
    for topic, partitions in (("clicks-eu", 2), ("clicks-us", 1), ("others", 1)):
        system.stream.create_topic(topic, partitions)
        for partition in range(partitions):
            system.stream.append(topic, partition, [click(n) for n in range(50)])
    system.start()
    system.overlord.submit(pattern_spec(**settings))


def payload(system: System) -> dict[str, Any]:
    return dict(system.overlord.status("clicks")["payload"])


def committed(system: System) -> dict[str, int]:
    names = {place.number: place.name for place in system.store.places("clicks", STREAM)}
    stored = system.store.offsets("clicks", STREAM)
    return {} if stored is None else {names[p]: offset for p, offset in stored.committed.items()}


def test_all_topics_that_match_are_read_and_told_by_topic_and_partition(system: System) -> None:
    running(system)
    eventually(lambda: system.records_read() == 150)
    eventually(lambda: payload(system)["aggregateLag"] == 0)
    told = payload(system)
    whole = {"clicks-eu:0": 50, "clicks-eu:1": 50, "clicks-us:0": 50}
    assert (told["stream"], told["partitions"], told["latestOffsets"]) == ("clicks-.*", 3, whole)
    [task] = told["activeTasks"]
    eventually(lambda: payload(system)["activeTasks"][0]["currentOffsets"] == whole)
    assert task["startingOffsets"] == dict.fromkeys(whole, 0)
    system.overlord.suspend("clicks")
    eventually(lambda: system.rows_published() == 150)
    assert committed(system) == whole


def test_a_topic_that_appears_later_joins_from_its_first_record(system: System) -> None:
    running(system)
    eventually(lambda: system.records_read() == 150)
    system.stream.create_topic("clicks-asia", 2)
    system.stream.append("clicks-asia", 1, [click(n) for n in range(20)])
    eventually(lambda: system.look() and "clicks-asia:1" in payload(system)["latestOffsets"])
    eventually(lambda: any(t.runner.view.positions.get(4) == 20 for t in system.tasks()), what="read")
    system.overlord.suspend("clicks")
    eventually(lambda: system.rows_published() == 170)
    assert committed(system)["clicks-asia:1"] == 20
    numbers = [place.name for place in system.store.places("clicks", STREAM)]
    assert numbers == ["clicks-eu:0", "clicks-eu:1", "clicks-us:0", "clicks-asia:0", "clicks-asia:1"]


def test_the_next_leader_finds_the_same_numbers(system: System) -> None:
    running(system, taskCount=2)
    eventually(lambda: sum(sum(t.runner.view.positions.values()) for t in system.tasks()) == 150)
    before = system.store.places("clicks", STREAM)
    system.overlord.stop()
    system.overlord = system.new_overlord("overlord-2")
    system.overlord.start()
    eventually(lambda: system.overlord.is_leading)
    system.stream.append("clicks-us", 0, [click(n) for n in range(50)])
    eventually(lambda: system.look() and payload(system)["latestOffsets"].get("clicks-us:0") == 100)
    eventually(lambda: payload(system)["aggregateLag"] == 0)
    system.overlord.suspend("clicks")
    eventually(lambda: system.rows_published() == 200)
    assert system.store.places("clicks", STREAM) == before


def test_rejected_records_and_the_topic_column_name_the_topic_they_came_from(system: System) -> None:
    posted = pattern_spec()
    posted["spec"]["dataSchema"]["dimensionsSpec"]["dimensions"].append("kafka.topic")
    posted["spec"]["ioConfig"]["inputFormat"] = {"type": "kafka", "valueFormat": {"type": "json"}}
    for topic in ("clicks-eu", "clicks-us"):
        system.stream.create_topic(topic, 2)
        system.stream.append(topic, 1, [click(1), b"{not json"])
    system.start()
    system.overlord.submit(posted)
    eventually(lambda: system.records_read() == 4)
    eventually(lambda: len(system.overlord.parse_errors("clicks")) == 2)
    places = {(error["topic"], error["partition"], error["offset"]) for error in system.overlord.parse_errors("clicks")}
    assert places == {("clicks-eu", 1, 1), ("clicks-us", 1, 1)}
    system.overlord.suspend("clicks")
    eventually(lambda: system.rows_published() == 2)
    [file] = system.store.quarantine_files("clicks", 10)
    local = system.root / "quarantine.parquet"
    system.storage.pull(file.load_spec, local)
    rejected = pq.read_table(local).to_pylist()
    assert {(row["topic"], row["partition"], row["offset"]) for row in rejected} == places
    [segment] = system.store.segments("clicks", None, 10, False)
    system.storage.pull(segment.segment.load_spec, local)
    assert sorted(map(str, pq.read_table(local).column("kafka.topic").to_pylist())) == ["clicks-eu", "clicks-us"]


def test_a_topic_made_again_is_named_and_only_its_partitions_move_by_a_reset(system: System) -> None:
    running(system)
    eventually(lambda: system.records_read() == 150)
    system.stream.delete_topic("clicks-us")
    system.stream.create_topic("clicks-us", 1)
    system.stream.append("clicks-us", 0, [click(n) for n in range(30)])
    eventually(lambda: system.look() and "'clicks-us' was deleted" in str(payload(system).get("stateReason")))
    system.overlord.reset_offsets(
        "clicks", OffsetMap({system.overlord.places("clicks")["clicks-us:0"]: 0}), discard=True
    )
    eventually(lambda: system.look() and committed(system).get("clicks-us:0") == 0)
    eventually(lambda: system.look() and payload(system).get("stateReason") is None, what="healthy again")
    eventually(lambda: any(t.runner.view.positions.get(2) == 30 for t in system.tasks()), what="read anew")
    system.overlord.suspend("clicks")
    eventually(lambda: committed(system) == {"clicks-eu:0": 50, "clicks-eu:1": 50, "clicks-us:0": 30})


def test_a_deleted_topic_stops_no_other(system: System) -> None:
    running(system)
    eventually(lambda: system.records_read() == 150)
    system.stream.delete_topic("clicks-us")
    system.stream.append("clicks-eu", 0, [click(n) for n in range(25)])
    eventually(lambda: system.records_read() == 175)
    system.overlord.suspend("clicks")
    eventually(lambda: system.rows_published() == 175)


def test_another_pattern_waits_until_the_tasks_of_the_old_one_have_ended(system: System) -> None:
    running(system)
    eventually(lambda: system.records_read() == 150)
    with pytest.raises(WrongState, match=r"still reads topic 'clicks-\.\*'"):
        system.overlord.submit(pattern_spec("others"))


def test_offsets_are_reset_by_topic_and_partition_over_http(tmp_path: Path) -> None:
    world = World(tmp_path)
    try:
        world.system.stream.create_topic("clicks-eu", 1)
        world.system.stream.append("clicks-eu", 0, [click(n) for n in range(10)])
        world.post(SUPERVISOR, pattern_spec())
        eventually(lambda: world.system.records_read() == 10)
        moves = {"partitions": {"type": "end", "stream": "clicks-.*", "partitionOffsetMap": {"clicks-eu:0": 4}}}
        world.post(f"{SUPERVISOR}/clicks/resetOffsets", moves)
        eventually(lambda: committed(world.system) == {"clicks-eu:0": 4})
        told = world.system.store.last_audit("clicks", "reset")
        assert told is not None and told.detail["partitions"] == {"clicks-eu:0": 0}, "numbers have their names"
        [row] = [each for each in world.http.get(f"{TRAIL}/audit").json() if each["action"] == "reset"]
        assert row["detail"]["moves"] == {"clicks-eu:0": 4} and "partitions" not in row["detail"], "and show them"
        published = world.http.get(f"{TRAIL}/ledger?limit=1").json()
        assert [(each["stream"], each["ranges"]) for each in published] == [("clicks-.*", {"clicks-eu:0": [0, 10]})]
        assert published[0]["messages"] == {"clicks-eu:0": {"good": 10}}
        for wrong, code in (("clicks/audit?limit=0", 400), ("clicks/ledger?after=x", 400), ("nobody/audit", 404)):
            assert world.http.get(f"/siltstone/v1/supervisor/{wrong}").status_code == code
        moves["partitions"]["partitionOffsetMap"] = {"0": 4}
        refused = world.http.post(f"{SUPERVISOR}/clicks/resetOffsets", json=moves)
        assert refused.status_code == 400 and "no topic:partition" in refused.text
    finally:
        world.system.stop()


def at_rest(system: System) -> None:
    system.overlord.suspend("clicks")
    eventually(lambda: not system.tasks() and not system.store.groups("clicks"), what="all is published")


def test_a_topic_read_before_goes_on_under_a_pattern_and_back_without_a_record_twice(system: System) -> None:
    for topic in ("clicks-eu", "clicks-us"):
        system.stream.create_topic(topic, 1)
        system.stream.append(topic, 0, [click(n) for n in range(50)])
    system.start()
    system.overlord.submit(spec("clicks-eu"))
    eventually(lambda: system.records_read() == 50)
    at_rest(system)
    system.overlord.submit(pattern_spec())
    eventually(lambda: system.records_read() == 100, what="50 of the one as committed, 50 of the other anew")
    at_rest(system)
    assert system.rows_published() == 100 and committed(system) == {"clicks-eu:0": 50, "clicks-us:0": 50}
    system.stream.append("clicks-eu", 0, [click(n) for n in range(20)])
    system.overlord.submit(pattern_spec())
    eventually(lambda: system.records_read() == 120)
    at_rest(system)
    system.overlord.submit(spec("clicks-eu"))
    eventually(lambda: system.store.offsets("clicks", "clicks-eu").committed == OffsetMap({0: 70}))  # type: ignore[union-attr]
    system.stream.append("clicks-eu", 0, [click(n) for n in range(5)])
    eventually(lambda: system.records_read() == 75)
    at_rest(system)
    assert system.rows_published() == 125


def test_another_incarnation_of_a_topic_is_not_taken_for_the_one_read_before(system: System) -> None:
    system.stream.create_topic("clicks-eu", 1)
    system.stream.append("clicks-eu", 0, [click(n) for n in range(50)])
    system.start()
    system.overlord.submit(spec("clicks-eu"))
    eventually(lambda: system.records_read() == 50)
    at_rest(system)
    system.stream.delete_topic("clicks-eu")
    system.stream.create_topic("clicks-eu", 1)
    system.stream.append("clicks-eu", 0, [click(n) for n in range(60)])
    system.overlord.submit(pattern_spec())
    eventually(lambda: system.records_read() == 60)
    at_rest(system)
    assert system.rows_published() == 110


def test_the_audit_of_a_table_is_clean_after_a_topic_became_a_pattern_and_one_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    system = world.system
    catalog = StoreCatalog(system.store, system.clock, ("query",), {})

    def shown() -> tuple[int, dict[int, int], dict[int, int]]:
        """The table as a query node sees it: version, committed offsets, epochs."""
        snapshot = catalog.snapshot("clicks", None)
        assert snapshot is not None
        return snapshot.version, dict(snapshot.committed["clicks"]), dict(snapshot.epochs["clicks"])

    try:
        system.stream.append("clicks", 0, [click(n) for n in range(30)])
        world.post(SUPERVISOR, spec())
        eventually(lambda: system.records_read() == 30)
        at_rest(system)
        seen = {0: shown()}
        system.stream.append("clicks", 1, [click(n) for n in range(10)] + [b"{"])
        world.post(SUPERVISOR, pattern_spec("click.*"))
        eventually(lambda: system.records_read() == 41)
        seen[1] = shown()
        at_rest(system)
        seen[2] = shown()
        world.post(SUPERVISOR, spec())
        eventually(lambda: system.committed() == OffsetMap({0: 30, 1: 11}))
        seen[3] = shown()
        system.stream.append("clicks", 0, [click(1)])
        eventually(lambda: system.records_read() == 42)
        at_rest(system)
        report = world.post("/siltstone/v1/verify/clicks")
        assert report["faults"] == [] and report["exact"] is True
        assert system.rows_published() == 41
        vectors = [vector for _, vector, _ in seen.values()]
        assert vectors == [{0: 30, 1: 0}, {0: 30, 1: 0}, {0: 30, 1: 11}, {0: 30, 1: 11}]
        versions, epochs = [version for version, _, _ in seen.values()], [epochs for _, _, epochs in seen.values()]
        assert versions == sorted(versions) and versions[2] < versions[3], "queries go by other offsets from then on"
        assert all(epochs[0][p] != epochs[1][p] != epochs[2][p] != epochs[3][p] for p in (0, 1))
    finally:
        system.stop()
