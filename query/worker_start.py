"""Starts the processes of query workers."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from query.runs import Worker
from query.worker_wire import WorkerSettings, encode_settings

TEMP_PREFIX = "query_temp_"
# Nothing of the server's environment (credentials, database addresses) is a query's business.
_PASSED = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "TMPDIR")
_OWN = {
    # Address space that is reserved and not used would count in the bound that the kernel keeps (query.worker_memory).
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "DUCKDB_JE_MALLOC_CONF": "retain:false",
    "ARROW_IO_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    # Neither grows with what is freed, so that memory goes back.
    "MALLOC_TRIM_THRESHOLD_": str(16 << 20),
    "MALLOC_MMAP_THRESHOLD_": str(1 << 20),
}
"""How a worker's allocators behave; they read it once, when they are loaded."""


@dataclass(frozen=True, slots=True)
class WorkerStarter:
    """What all workers of a pool have alike; ``nice`` is what their priority falls behind that of tasks."""

    roots: Sequence[str]
    temp_dir: Path
    memory_bytes: int
    temp_bytes: int
    threads: int
    nice: int

    def prepare(self) -> None:
        """Makes the folders, and removes what workers left that were killed."""
        for root in (*self.roots, str(self.temp_dir)):
            Path(root).mkdir(parents=True, exist_ok=True)
        for left in self.temp_dir.glob(TEMP_PREFIX + "*"):
            shutil.rmtree(left, ignore_errors=True)

    def start(self) -> Worker:
        """A process that will tell when it can take jobs; it ends with the thread that called this.

        Raises:
            OSError: the machine gives none now (a full disk, no more processes).
        """
        temp_dir = tempfile.mkdtemp(prefix=TEMP_PREFIX, dir=self.temp_dir)
        ours, theirs = socket.socketpair()
        settings = WorkerSettings(tuple(self.roots), temp_dir, self.memory_bytes, self.temp_bytes, self.threads)
        environment = {name: os.environ[name] for name in _PASSED if name in os.environ} | _OWN
        environment["PYTHONPATH"] = str(Path(__file__).parent.parent)
        arguments = [str(theirs.fileno()), str(self.nice), encode_settings(settings)]
        with theirs, contextlib.ExitStack() as undo:
            undo.callback(shutil.rmtree, temp_dir, ignore_errors=True)
            undo.callback(ours.close)
            process = subprocess.Popen(
                [sys.executable, "-m", "query.worker", *arguments],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=environment,
            )
            undo.pop_all()
        return Worker(process, ours, temp_dir, self.memory_bytes)
