"""What a middle manager keeps of ended attempts, whatever the wall clock does, and how long a log may grow."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ingest.appenderator.manifest import MANIFEST_NAME, Manifest, StoredSequence, write_manifest
from ingest.offsets import OffsetMap
from ingest.protocol import KeptRows, SequenceRecord, SequenceRef, SequenceState, TaskSpec
from ingest.task.directory import AttemptDirectory, TaskResult
from ingest.worker import retention
from ingest.worker.retention import ROWS_KEPT_MS, SEEN_MS, EndedSweep, bound_log, database_of

ENDED_MS = 1_800_000_000_000


def attempt(root: Path, number: int, succeeded: bool | None) -> tuple[TaskSpec, AttemptDirectory]:
    spec = TaskSpec("clicks_0", number, f"token-{number}", "clicks", "clicks", 0, 1, "t", None, (), {}, True)
    directory = AttemptDirectory.of(root, spec)
    directory.create(spec)
    directory.write_result(TaskResult(succeeded, None, ENDED_MS))
    directory.mark("acknowledged")
    return spec, directory


def test_a_wall_clock_that_jumps_by_days_removes_no_rows_that_a_successor_may_need(tmp_path: Path) -> None:
    found, sweep = [attempt(tmp_path, 1, None)], EndedSweep()
    rows = found[0][1].work
    sweep.sweep(found, ENDED_MS, 0)
    sweep.sweep(found, ENDED_MS + 30 * ROWS_KEPT_MS, SEEN_MS - 1)
    assert rows.exists()
    sweep.sweep(found, ENDED_MS + ROWS_KEPT_MS, 10 * SEEN_MS)
    assert rows.exists()
    sweep.sweep(found, ENDED_MS + ROWS_KEPT_MS + 1, 10 * SEEN_MS)
    assert not rows.exists() and found[0][1].log.parent.exists()


def test_rows_that_nobody_needs_go_at_once(tmp_path: Path) -> None:
    first, second = attempt(tmp_path, 1, None), attempt(tmp_path, 2, None)
    EndedSweep().sweep([first, second], ENDED_MS, 0)
    assert first[1].work.exists() and second[1].work.exists()
    second[1].mark("restored")
    EndedSweep().sweep([first, second], ENDED_MS, 0)
    assert not first[1].work.exists() and second[1].work.exists()


def test_rows_go_when_the_overlord_knows_them_published_unless_their_group_runs_here(tmp_path: Path) -> None:
    (spec, directory), sweep = attempt(tmp_path, 1, None), EndedSweep()
    record = SequenceRecord(SequenceRef("clicks", 0, 7), OffsetMap(), OffsetMap(), 1, 0, SequenceState.OPEN)
    write_manifest(directory.work, Manifest(1, (StoredSequence(record, ()),)))
    for busy in ({("clicks", 0)}, set()):
        sweep.sweep([(spec, directory)], ENDED_MS, 0)
        assert sweep.kept() == (KeptRows("token-1", "clicks", 0, 7),)
        assert sweep.kept() == (), "asked about once a sweep"
        sweep.remove(["token-1", "token-2"], busy)
        assert directory.work.exists() == bool(busy)
    sweep.sweep([(spec, directory)], ENDED_MS, 0)
    assert sweep.kept() == () and directory.path.exists(), "its log and result stay"


def test_rows_whose_manifest_cannot_be_read_wait_for_their_day(tmp_path: Path) -> None:
    found, sweep = attempt(tmp_path, 1, None), EndedSweep()
    (found[1].work / MANIFEST_NAME).write_bytes(b"{")
    sweep.sweep([found], ENDED_MS, 0)
    assert sweep.kept() == ()


def test_attempts_bind_their_root_to_a_database_only_while_something_of_theirs_can_be_lost(tmp_path: Path) -> None:
    spec, directory = attempt(tmp_path, 1, False)
    named = replace(spec, database="ours")
    assert database_of([(spec, directory)]) == "" and database_of([(spec, directory), (named, directory)]) == "ours"
    shutil.rmtree(directory.work)
    assert database_of([(named, directory)]) == "", "nothing but its log is left"
    (directory.path / "acknowledged").unlink()
    assert database_of([(named, directory)]) == "ours", "its end is not told yet"


def test_a_log_that_grows_too_long_is_moved_aside_and_written_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "LOG_BYTES_MAX", 100)
    _, directory = attempt(tmp_path, 1, None)
    with directory.log.open("ab", buffering=0) as output:
        output.write(b"a" * 100)
        bound_log(directory)
        assert directory.log.stat().st_size == 100
        output.write(b"b")
        bound_log(directory)
        output.write(b"c")
    assert directory.log.read_bytes() == b"c"
    assert (directory.path / "log.1.txt").read_bytes() == b"a" * 100 + b"b"
    bound_log(attempt(tmp_path, 2, None)[1])  # one that has no log yet
