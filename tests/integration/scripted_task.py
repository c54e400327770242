"""A stand-in task process that does what files in its directory say; for tests of the middle manager."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from ingest.task.directory import AttemptDirectory, TaskResult, own_identity

LIVES_S = 300.0
"""One that was started while its test ended, before it said who it is, is killed by nobody."""


def run(path: Path) -> int:
    """Holds its directory, says who it is, and ends when a file ``finish`` or ``fail`` appears."""
    directory = AttemptDirectory(path)
    with directory.held():
        spec = directory.spec()
        directory.write_identity(own_identity(spec.token, "127.0.0.1:1", spec.protocol))
        descriptors = sorted(int(name) for name in os.listdir("/proc/self/fd"))
        print(f"session {os.getsid(0)} pid {os.getpid()} descriptors {descriptors}", flush=True)
        end = time.monotonic() + LIVES_S
        while not (path / "finish").exists():
            if time.monotonic() > end:
                return 1
            if (path / "fail").exists():
                directory.write_result(TaskResult(False, "it was told to fail", 0))
                return 1
            time.sleep(0.01)
        directory.write_result(TaskResult(True, None, 0))
    return 0


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1])))
