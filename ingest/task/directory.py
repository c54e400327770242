"""The state directory of one task attempt: its files, and how a process proves that it is the one named there.

::

    <root>/attempts/<task id>.<attempt>/
        task.json      the TaskSpec; written by the middle manager before the start
        lock           flock held by the task process as long as it lives
        process.json   ProcessIdentity; written by the task once its port is bound
        work/          the appenderator's spills and manifest
        restored       exists once rows of an ended older attempt are linked in and in the manifest
        log.txt        standard output and error; log.1.txt what stood there before it grew too long
        result.json    TaskResult; written as the task's last act
        acknowledged   exists once the overlord knows how the attempt ended

Every JSON file is written to a temporary name, fsynced, renamed, and its directory fsynced.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from ingest.errors import IngestError
from ingest.protocol import TaskSpec
from ingest.wire import WireError, dumps, loads

T = TypeVar("T")

RESERVE_BYTES = 256 << 20

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """Who runs an attempt. Pids are reused, so pid, start time and boot id count only together.

    ``start_ticks`` is field 22 of ``/proc/<pid>/stat``: clock ticks from boot to the process's start.
    """

    pid: int
    start_ticks: int
    boot_id: str
    token: str
    address: str
    protocol: int


@dataclass(frozen=True, slots=True)
class TaskResult:
    """How an attempt ended. ``succeeded`` is None when it stopped early but can be restored."""

    succeeded: bool | None
    error: str | None
    ended_ms: int


class DirectoryTaken(IngestError):
    """Another process runs in the attempt's directory, or the attempt already ended."""

    effect_known_absent = True


class AttemptDirectory:
    """Paths and files of one attempt; holds no descriptor but inside ``held``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.work = path / "work"
        self.log = path / "log.txt"

    def is_scarce(self) -> bool:
        """Whether the file system has only its reserve left: 256 MiB, or a fiftieth of a smaller one. Reading on
        leaves that to tasks that others wait for (PR-12)."""
        space = shutil.disk_usage(self.path)
        return space.free < min(RESERVE_BYTES, space.total // 50)

    @staticmethod
    def of(root: Path, spec: TaskSpec) -> AttemptDirectory:
        """Where ``spec`` lives under a middle manager's state root; the name is safe for any task id."""
        return AttemptDirectory(root / "attempts" / f"{quote(spec.task_id, safe='')}.{spec.attempt}")

    def create(self, spec: TaskSpec) -> None:
        """Makes the directory with its task.json; repeating it changes nothing."""
        self.work.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path / "task.json", dumps(spec))

    def spec(self) -> TaskSpec:
        """Reads task.json.

        Raises:
            WireError: it is missing or malformed.
        """
        try:
            return loads(TaskSpec, (self.path / "task.json").read_bytes())
        except OSError as error:
            raise WireError(f"task.json of {self.path} cannot be read: {error}") from error

    def write_identity(self, identity: ProcessIdentity) -> None:
        write_atomically(self.path / "process.json", dumps(identity))

    def identity(self) -> ProcessIdentity | None:
        """None when the process has not come so far, or the file is not readable as one."""
        return _read(ProcessIdentity, self.path / "process.json")

    def write_result(self, result: TaskResult) -> None:
        write_atomically(self.path / "result.json", dumps(result))

    def result(self) -> TaskResult | None:
        return _read(TaskResult, self.path / "result.json")

    def mark(self, name: str) -> None:
        """Leaves a durable empty marker file (``restored``, ``acknowledged``)."""
        write_atomically(self.path / name, b"")

    def is_marked(self, name: str) -> bool:
        return (self.path / name).exists()

    def has_ended(self) -> bool:
        """Whether no process runs here: the lock, which every process of the attempt holds for life, is free."""
        try:
            descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False  # no process ever came so far, or the directory is going away: nothing to find
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        else:
            return True
        finally:
            os.close(descriptor)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Holds the attempt's lock; the kernel frees it whatever kills the process.

        Raises:
            DirectoryTaken: a process holds it, or a result says that the attempt has ended.
        """
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise DirectoryTaken(f"another process runs in {self.path}") from error
            if self.result() is not None:
                raise DirectoryTaken(f"the attempt in {self.path} has already ended")
            yield
        finally:
            os.close(descriptor)


def _read(kind: type[T], path: Path) -> T | None:
    try:
        return loads(kind, path.read_bytes())
    except (OSError, WireError):
        return None


def write_atomically(path: Path, data: bytes) -> None:
    """Replaces ``path`` by ``data``; after any crash it holds the old or the new content, whole."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with open(temporary, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, path)
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def boot_id() -> str:
    """Names this boot of the machine: pids and start times of another boot mean nothing."""
    return BOOT_ID.read_text().strip()


def start_ticks(pid: int) -> int | None:
    """Start time of a live process in clock ticks since boot; None when it is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command name stands in parentheses and may itself hold spaces and parentheses.
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else int(fields[19])


def own_identity(token: str, address: str, protocol: int) -> ProcessIdentity:
    """The calling process's identity for ``process.json``."""
    pid = os.getpid()
    ticks = start_ticks(pid)
    assert ticks is not None
    return ProcessIdentity(pid, ticks, boot_id(), token, address, protocol)
