"""What a middle manager asks of others: the overlord, a way to start processes, and proof of who a task is."""

from __future__ import annotations

from typing import Protocol

from ingest.errors import IngestError
from ingest.protocol import WorkerHeartbeat, WorkerOrders
from ingest.task.directory import AttemptDirectory


class LaunchFailed(IngestError):
    """No task process was started, as far as its starter can tell."""

    retryable = True


class OverlordWorkers(Protocol):
    """The overlord as a middle manager sees it; safe from any thread."""

    def beat(self, beat: WorkerHeartbeat) -> WorkerOrders:
        """Reports and takes orders. Waits up to ``beat.wait_ms`` for orders when there are none.

        Raises:
            OverlordUnreachable: no leader answered; beat again later.
        """
        ...


class TaskLauncher(Protocol):
    """Starts task processes that outlive their starter."""

    def warm_up(self) -> None:
        """Prepares for the first launch without waiting."""
        ...

    def launch(self, directory: AttemptDirectory) -> int:
        """Starts the attempt's process in a session of its own, output to its log, no other
        inherited descriptor. Returns its pid.

        Raises:
            LaunchFailed: no process was started.
        """
        ...

    def reap(self, pid: int) -> None:
        """Collects the exit of a process this launcher started, if the kernel waits for that."""
        ...

    def close(self) -> None:
        """Frees the launcher; started processes go on."""
        ...


class TaskChallenge(Protocol):
    """Asks a process at an address to prove that it holds an attempt's token."""

    def proves(self, address: str, token: str, pid: int) -> bool:
        """True when the answer is right, False when something else answered.

        Raises:
            TaskUnreachable: nobody answered in time; nothing is proved either way.
        """
        ...
