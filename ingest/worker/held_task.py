"""One task process a middle manager watches: found or started, proved or not, and how to end it safely."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass

from ingest.errors import TaskUnreachable
from ingest.protocol import EndedTask, RunningTask, TaskSpec
from ingest.task.directory import AttemptDirectory, DirectoryTaken, TaskResult, boot_id, start_ticks
from ingest.worker.ports import TaskChallenge


@dataclass(slots=True)
class HeldTask:
    """A live process with the pidfd that sees its end. ``close`` it once.

    ``proved`` says that the process is certainly this attempt: its starter was us, or it answered
    the challenge. Only a proved process is ever signalled; the pidfd cannot hit a reused pid.
    """

    spec: TaskSpec
    directory: AttemptDirectory
    pid: int
    pidfd: int
    adopted: bool
    proved: bool
    killed: bool = False  # a process takes a while to die

    def running(self) -> RunningTask:
        return RunningTask(self.spec.task_id, self.spec.attempt, self.spec.token, self.pid, self.adopted)

    def prove(self, challenge: TaskChallenge) -> bool:
        """Asks the process for the proof if it is still missing; silence proves nothing."""
        identity = self.directory.identity()
        if not self.proved and identity is not None and identity.pid == self.pid:
            with suppress(TaskUnreachable):
                self.proved = challenge.proves(identity.address, self.spec.token, self.pid)
        return self.proved

    def kill(self) -> None:
        """Ends the process at once; it must be proved."""
        self._signal(signal.SIGKILL)
        self.killed = True

    def ask_to_end(self) -> None:
        """Lets the process persist its rows and end, restorable; it must be proved."""
        self._signal(signal.SIGTERM)

    def _signal(self, number: signal.Signals) -> None:
        assert self.proved
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, number)

    def close(self) -> None:
        os.close(self.pidfd)


def hold_started(spec: TaskSpec, directory: AttemptDirectory, pid: int) -> HeldTask | None:
    """Watches the process a launcher has just started; None when it is gone already."""
    pidfd = _open_pidfd(pid)
    if pidfd is None:
        return None
    return HeldTask(spec, directory, pid, pidfd, adopted=False, proved=True)


def find_running(spec: TaskSpec, directory: AttemptDirectory) -> HeldTask | None:
    """The process that ``process.json`` names, if it is alive: same pid, start time, boot and token.

    The start time is compared after the pidfd is open, so the pid cannot change hands in between.
    """
    identity = directory.identity()
    if identity is None or identity.boot_id != boot_id() or identity.token != spec.token:
        return None
    pidfd = _open_pidfd(identity.pid)
    if pidfd is None:
        return None
    if start_ticks(identity.pid) != identity.start_ticks:
        os.close(pidfd)
        return None
    return HeldTask(spec, directory, identity.pid, pidfd, adopted=True, proved=False)


def _open_pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def end_of(spec: TaskSpec, directory: AttemptDirectory) -> EndedTask:
    """How an attempt whose process is gone ended: by its result, or killed when there is none."""
    result = directory.result()
    if result is None:
        return EndedTask(spec.task_id, spec.attempt, spec.token, None, "the process ended without a result")
    return EndedTask(spec.task_id, spec.attempt, spec.token, result.succeeded, result.error)


def close_never_started(directory: AttemptDirectory, now_ms: int) -> bool:
    """Settles an attempt that has no process: a late starter finds a result and leaves.

    False when a process holds the directory after all (it has not written its identity yet).
    """
    try:
        with directory.held():
            directory.write_result(TaskResult(None, "the process ended without a result", now_ms))
    except DirectoryTaken:
        return directory.result() is not None
    return True
