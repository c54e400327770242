"""Query workers on a disk that takes nothing for a while."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from ingest.clock import SystemClock
from query.engine import Engine, EngineSettings
from query.errors import QueryTimeout, QueryUnavailable


def test_workers_come_back_once_the_disk_takes_their_folders_again(tmp_path: Path) -> None:
    temp = tmp_path / "temp"
    pool = Engine(EngineSettings(workers=1, threads=1), [tmp_path / "files"], temp, SystemClock())
    pool.start()
    try:
        run = pool.run("SELECT i FROM range(100000000) t(i)", [])
        shutil.rmtree(temp)
        temp.write_text("no folder can be made here")
        os.kill(run.pid, signal.SIGKILL)
        with pytest.raises(QueryUnavailable, match="died"):
            list(run.batches())
        with pytest.raises(QueryTimeout):
            list(pool.run("SELECT 1", [], 200).batches())
        temp.unlink()
        temp.mkdir()
        assert [b.to_pydict() for b in pool.run("SELECT 1 AS x", [], 20_000).batches()] == [{"x": [1]}]
    finally:
        pool.stop()
