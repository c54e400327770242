"""A state directory has at most one process, and whoever had it is known to have ended or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.offsets import OffsetMap
from ingest.protocol import SequenceRecord, SequenceRef, TaskSpec
from ingest.task.directory import AttemptDirectory, DirectoryTaken, TaskResult
from ingest.task.restore import restorable


def attempt(number: int, group: int = 1) -> TaskSpec:
    start = OffsetMap({0: 0})
    record = SequenceRecord(SequenceRef("clicks", group, 0), start, start, 1, 0)
    token = f"token-{group}-{number}"
    return TaskSpec(
        f"task-{group}", number, token, "clicks", "clicks", group, 1, "topic", None, (record,), {1: {}}, True
    )


def directory_of(root: Path, spec: TaskSpec) -> AttemptDirectory:
    made = AttemptDirectory.of(root, spec)
    made.create(spec)
    return made


def test_a_second_process_is_turned_away_while_the_first_lives(tmp_path: Path) -> None:
    directory = directory_of(tmp_path, attempt(1))
    with directory.held():
        assert not directory.has_ended()
        with pytest.raises(DirectoryTaken, match="another process"), directory.held():
            pass
    assert directory.has_ended()
    with directory.held():
        assert not directory.has_ended()


def test_an_attempt_that_has_ended_is_never_started_again(tmp_path: Path) -> None:
    directory = directory_of(tmp_path, attempt(1))
    with directory.held():
        directory.write_result(TaskResult(True, None, 7))
    with pytest.raises(DirectoryTaken, match="already ended"), directory.held():
        pass
    assert directory.result() == TaskResult(True, None, 7)


def test_only_rows_of_the_same_group_and_of_ended_processes_are_taken_over(tmp_path: Path) -> None:
    ended, alive, other = (directory_of(tmp_path, attempt(*which)) for which in [(1,), (2,), (1, 2)])
    never_ran = directory_of(tmp_path, attempt(4))
    for directory in (ended, alive, other, never_ran):
        (directory.work / "rows").touch()
    for directory in (ended, other):
        with directory.held():
            pass
    with alive.held():
        found = restorable(tmp_path / "attempts", attempt(3), lambda work: (work / "rows").exists())
        assert [each.path for each in found] == [ended.path]
    assert restorable(tmp_path / "attempts", attempt(3), lambda work: False) == []
