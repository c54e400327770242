"""A task and its database die at every write, rename, link, unlink and fsync; a successor always ends it exactly."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.crash.life import MESSAGES, PERSIST_EVERY
from tests.servers.fixtures import missing

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def swept(folder: Path, first: int, step: int) -> list[dict[str, Any]]:
    """What became of each point, the last of which killed nobody."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        missing("a C compiler", "apt-get install -y gcc")
    library = folder / "kill_at.so"
    source = HERE / "kill_at.c"
    assert compiler is not None
    subprocess.run([compiler, "-shared", "-fPIC", "-Wall", "-Werror", "-o", library, source, "-ldl"], check=True)
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash.sweep", str(folder), str(first), str(step)],
        cwd=ROOT,
        env={**os.environ, "LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        check=False,
    )
    points = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    failed = [point for point in points if not point["survived"]]
    assert not failed, failed[:3]
    assert done.returncode == 0, done.stderr[-2_000:]
    return points


def check(points: list[dict[str, Any]]) -> None:
    """The later it died, the less was read again; and never by half a persist."""
    *killed, last = points
    assert all(point["killed"] for point in killed) and not last["killed"]
    began = [point["readFrom"] for point in killed]
    published = began.index(-1) if -1 in began else len(began)
    assert began[:published] == sorted(began[:published]), "what was persisted once stays"
    assert set(began[published:]) <= {-1}, "what was published once stays"
    assert set(began[:published]) <= set(range(0, MESSAGES + 1, PERSIST_EVERY))
    assert {began[0], began[published - 1]} == {0, MESSAGES}


@pytest.mark.integration
def test_some_points_of_a_tasks_life_are_survived_exactly(tmp_path: Path) -> None:
    points = swept(tmp_path, 7, 53)
    check(points)
    print(f"{len(points)} points up to the {points[-1]['point']}th change of a file")


@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_every_point_of_a_tasks_life_is_survived_exactly(tmp_path: Path) -> None:
    points = swept(tmp_path, 1, 1)
    check(points)
    print(f"{len(points)} points")
    assert len(points) > 200
