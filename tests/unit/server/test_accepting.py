"""Forgetting a lost database: only what this machine knew of it goes, and never from under a running task."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from ingest.protocol import PROTOCOL_VERSION, TaskSpec
from ingest.task.directory import AttemptDirectory, own_identity
from server.accepting import TasksRun, forget_newer_database
from server.cli import app
from server.config import load
from server.data_dir import DataDirUnusable, open_data_dir


def attempt(data_dir: Path, running: bool) -> AttemptDirectory:
    spec = TaskSpec("clicks_0", 1, "token", "clicks", "clicks", 0, 1, "t", None, (), {}, True)
    directory = AttemptDirectory.of(data_dir / "tasks", spec)
    directory.create(spec)
    if running:
        # This very process, where nobody proves to be the task.
        directory.write_identity(own_identity(spec.token, "127.0.0.1:9", PROTOCOL_VERSION))
    return directory


def test_rows_of_ended_tasks_and_the_note_go_and_everything_else_stays(tmp_path: Path) -> None:
    directory = attempt(tmp_path, running=False)
    (tmp_path / "metadata-seen.json").write_text("{}")
    (tmp_path / "metadata.db").write_text("rows")
    done = CliRunner().invoke(app, ["accept-database", "--yes"], env={"SILTSTONE_DATA_DIR": str(tmp_path)})
    assert done.exit_code == 0 and done.output.startswith("1 task attempts removed")
    assert not directory.path.exists() and not (tmp_path / "metadata-seen.json").exists()
    assert (tmp_path / "metadata.db").read_text() == "rows"


def test_it_asks_first(tmp_path: Path) -> None:
    directory = attempt(tmp_path, running=False)
    done = CliRunner().invoke(app, ["accept-database"], env={"SILTSTONE_DATA_DIR": str(tmp_path)}, input="n\n")
    assert done.exit_code == 1 and "nothing was removed" in done.output and directory.path.exists()


def test_a_task_that_runs_keeps_its_rows_and_is_named(tmp_path: Path) -> None:
    directory = attempt(tmp_path, running=True)
    with pytest.raises(TasksRun, match=r"clicks_0\.1"):
        forget_newer_database(load(None, {"data_dir": tmp_path}))
    assert directory.path.exists()


def test_a_service_that_runs_keeps_its_data_directory(tmp_path: Path) -> None:
    held = open_data_dir(tmp_path, None)
    with pytest.raises(DataDirUnusable, match="in use"):
        forget_newer_database(load(None, {"data_dir": tmp_path}))
    held.close()
