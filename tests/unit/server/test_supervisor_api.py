"""Supervisor routes beyond a plain life: unmodified specs, early hand-off, averages, warnings beside problems."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ingest.metadata.records import DesiredState
from tests.in_process import click, eventually, spec
from tests.unit.server.test_api import SUPERVISOR, World

SKIP = f"{SUPERVISOR}?skipRestartIfUnmodified=true"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.system.stop()


def test_a_spec_that_is_just_the_stored_one_changes_nothing(world: World) -> None:
    first = world.post(SKIP, spec())
    assert first == {"id": "clicks", "version": 1, "modified": True, "restarted": True}
    assert world.post(SKIP, spec()) == {"id": "clicks", "version": 1, "modified": False, "restarted": False}
    assert world.post(SUPERVISOR, spec())["modified"] is False
    changed = world.post(SKIP, spec(maxRowsPerSegment=100))
    assert (changed["version"], changed["modified"]) == (2, True)
    suspended = spec(maxRowsPerSegment=100) | {"suspended": True}
    assert world.post(SKIP, suspended)["modified"] is True
    world.post(f"{SUPERVISOR}/clicks/resume")
    assert world.post(SKIP, spec(maxRowsPerSegment=100))["modified"] is True, "what is stored says suspended"


def test_an_unmodified_spec_starts_again_what_has_stopped_unless_that_is_skipped(world: World) -> None:
    world.post(SUPERVISOR, spec(maxParseExceptions=0))
    world.system.stream.append("clicks", 0, [b"{"])
    eventually(lambda: world.get(f"{SUPERVISOR}/clicks/status")["payload"].get("stateReason"))
    assert world.post(SKIP, spec(maxParseExceptions=0))["version"] == 1
    assert world.get(f"{SUPERVISOR}/clicks/status")["payload"]["healthy"] is False
    assert world.post(SUPERVISOR, spec(maxParseExceptions=0))["version"] == 2


def test_task_groups_hand_off_early_and_read_on(world: World) -> None:
    world.post(SUPERVISOR, spec())
    world.system.stream.append("clicks", 0, [click(n) for n in range(10)])
    eventually(lambda: world.system.records_read() == 10)
    [task] = world.system.tasks()

    def publish() -> int:
        asked = {"taskGroupIds": [task.task.group, 77]}
        answer = world.http.post(f"{SUPERVISOR}/clicks/taskGroups/handoff", json=asked)
        told = {"id": "clicks", "groups": [task.task.group], "unknown": [77]}
        assert (answer.status_code, answer.json()) == (202, told)
        return world.system.rows_published()

    eventually(lambda: publish() == 10)
    world.system.stream.append("clicks", 0, [click(n) for n in range(5)])
    eventually(lambda: world.system.records_read() == 15)
    assert world.system.tasks() == [task]


def test_a_jump_to_the_latest_offsets_names_the_supervisor_of_what_is_skipped(world: World) -> None:
    jump = f"{SUPERVISOR}/clicks/resetToLatestAndBackfill"
    world.post(jump, None, 404)
    posted = spec()
    world.post(SUPERVISOR, posted)
    assert "useEarliestOffset" in world.post(jump, None, 400)["error"]
    posted["spec"]["ioConfig"]["useEarliestOffset"] = False
    world.post(SUPERVISOR, posted)
    for count in ("0", "-1", "x"):
        assert "backfillTaskCount" in world.post(f"{jump}?backfillTaskCount={count}", None, 400)["error"]
    eventually(lambda: world.get(f"{SUPERVISOR}/clicks/status")["payload"]["state"] == "RUNNING")
    eventually(lambda: world.system.committed() or world.system.look() is None)
    answer = world.post(f"{jump}?backfillTaskCount=3", None)
    later = answer["backfillSupervisorId"]
    assert answer == {"id": "clicks", "backfillSupervisorId": later} and later.startswith("clicks_backfill_")
    eventually(lambda: world.http.get(f"{SUPERVISOR}/{later}").status_code == 200)
    io = world.get(f"{SUPERVISOR}/{later}")["spec"]["ioConfig"]
    assert io["taskCount"] == 3 and io["boundedStreamConfig"]["startSequenceNumbers"]


@pytest.mark.parametrize("body", [{}, [], {"taskGroupIds": []}, {"taskGroupIds": ["a"]}, {"taskGroupIds": [True]}])
def test_a_hand_off_without_groups_is_refused(world: World, body: Any) -> None:
    world.post(SUPERVISOR, spec())
    assert "taskGroupIds" in world.post(f"{SUPERVISOR}/clicks/taskGroups/handoff", body, 400)["error"]
    assert world.post(f"{SUPERVISOR}/nobody/taskGroups/handoff", {"taskGroupIds": [1]}, 404)["error"]


def test_moving_averages_follow_what_tasks_count(world: World) -> None:
    world.post(SUPERVISOR, spec())

    def averages() -> dict[str, Any]:
        [[task]] = [list(tasks.values()) for tasks in world.get(f"{SUPERVISOR}/clicks/stats").values()] or [[{}]]
        return dict(task.get("movingAverages", {}).get("buildSegments", {}))

    eventually(lambda: bool(averages()))
    world.system.stream.append("clicks", 0, [click(n) for n in range(500)])
    eventually(lambda: averages()["1m"]["processed"] > 0)
    found = averages()
    assert list(found) == ["1m", "5m", "15m"]
    assert set(found["1m"]) == {"processed", "processedBytes", "processedWithError", "thrownAway", "unparseable"}


def test_a_refused_spec_is_answered_with_its_warnings_too(world: World) -> None:
    body = world.post(SUPERVISOR, spec(maxRowsPerSegment=0, maxRowsPerSegmnet=5), 400)
    assert len(body["problems"]) == 1
    assert len(body["warnings"]) == 1 and "did you mean maxRowsPerSegment" in body["warnings"][0]


def test_an_id_that_the_address_of_all_histories_hides_is_refused_by_name(world: World) -> None:
    [problem] = world.post(SUPERVISOR, {**spec(), "id": "history"}, 400)["problems"]
    assert problem.startswith("$.id: ") and "supervisor/history" in problem


def test_all_supervisors_are_suspended_resumed_and_terminated_together(world: World) -> None:
    other = spec() | {"id": "others"}
    other["spec"]["dataSchema"] = {**other["spec"]["dataSchema"], "dataSource": "others"}
    world.post(SUPERVISOR, spec())
    world.post(SUPERVISOR, other)
    done = {"status": "success"}

    def suspended() -> set[bool]:
        return {entry["suspended"] for entry in world.get(f"{SUPERVISOR}?state=true")}

    assert world.post(f"{SUPERVISOR}/clicks/suspend")["suspended"] is True
    assert world.post(f"{SUPERVISOR}/suspendAll") == done and suspended() == {True}
    assert world.post(f"{SUPERVISOR}/resumeAll") == done and suspended() == {False}
    assert world.post(f"{SUPERVISOR}/terminateAll") == done
    assert world.get(SUPERVISOR) == []
    assert set(world.get(f"{SUPERVISOR}/history")) <= {"clicks", "others"}
    assert "greater than 0" in world.get(f"{SUPERVISOR}/clicks/history?count=0", 400)["error"]


def test_a_stored_spec_that_is_not_understood_hides_no_other_and_stops_no_wish_for_all(world: World) -> None:
    world.post(SUPERVISOR, spec())
    generation, old = world.system.overlord.leading().generation, {"type": "kafka", "spec": {"of": "an older version"}}
    world.system.store.put_supervisor(generation, "ancient", "ancient", old, DesiredState.RUNNING, 0)
    listed = {entry["id"]: entry for entry in world.get(f"{SUPERVISOR}?full=true")}
    assert listed["ancient"]["state"] == "UNHEALTHY_SUPERVISOR" and listed["ancient"]["healthy"] is False
    assert listed["clicks"]["dataSource"] == "clicks"
    assert world.post(f"{SUPERVISOR}/suspendAll") == {"status": "success"}
    assert {entry["suspended"] for entry in world.get(f"{SUPERVISOR}?state=true")} == {True}
