"""What a middle manager leaves for its tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from segments.errors import ServiceError
from server.task_settings import TaskSettings

SETTINGS = TaskSettings(("http://127.0.0.1:8888",), "127.0.0.1", "127.0.0.1", {"type": "local"}, 1 << 30)


def test_tasks_read_what_was_left_for_them(tmp_path: Path) -> None:
    SETTINGS.write(tmp_path / "tasks")
    assert TaskSettings.read(tmp_path / "tasks") == SETTINGS


def test_a_disk_that_takes_no_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ServiceError, match=str(tmp_path / "file")):
        SETTINGS.write(tmp_path / "file" / "tasks")
