"""Ends the tasks under a state root restorably: for a service that stops together with its broker."""

from __future__ import annotations

import select
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import structlog

from ingest.clock import Clock
from ingest.protocol import RunningTask
from ingest.task.directory import AttemptDirectory
from ingest.wire import WireError
from ingest.worker.held_task import HeldTask, find_running
from ingest.worker.ports import TaskChallenge

log = structlog.get_logger()


def stop_tasks(root: Path, challenge: TaskChallenge, timeout_s: float, clock: Clock) -> list[str]:
    """Asks every proved task to persist and end, and waits; returns the ids of those that did not end in time.

    The middle manager of the root must be stopped, or it would report the ends and start others.
    """
    held = list(_proved(root, challenge))
    for task in held:
        task.ask_to_end()
    deadline_ms = clock.monotonic_ms() + int(timeout_s * 1_000)
    left = {task.pidfd: task for task in held}
    poll = select.poll()
    for pidfd in left:
        poll.register(pidfd, select.POLLIN)
    while left and (wait_ms := deadline_ms - clock.monotonic_ms()) > 0:
        for pidfd, _ in poll.poll(wait_ms):
            poll.unregister(pidfd)
            left.pop(pidfd, None)
    for task in held:
        task.close()
    return [task.spec.task_id for task in left.values()]


def tell_left(left: Sequence[RunningTask], root: Path) -> None:
    """Says which tasks a stop leaves running, who takes them up again, and how they are ended instead."""
    if not left:
        return
    log.info(
        "tasks go on without this process",
        tasks=[f"{task.task_id}, attempt {task.attempt}: pid {task.pid}" for task in left],
        adopted_by=f"the next start with the same data directory ({root})",
        ended_by="kill -TERM PID: what it has read is kept, and restored by the next start; worker.keep_tasks: false "
        "ends them with every stop",
    )


def tell_ended(left: Sequence[RunningTask], still: Sequence[str]) -> None:
    """Says which tasks a stop has ended, and which did not end in time."""
    if ended := [task.task_id for task in left if task.task_id not in still]:
        log.info("tasks ended, what they have read is restored by the next start", tasks=ended)
    if still:
        pids = [f"{task.task_id}: pid {task.pid}" for task in left if task.task_id in still]
        log.warning("tasks did not end in time and go on", tasks=pids or list(still))


def _proved(root: Path, challenge: TaskChallenge) -> list[HeldTask]:
    found: list[HeldTask] = []
    folder = root / "attempts"
    for path in sorted(folder.iterdir()) if folder.exists() else ():
        directory = AttemptDirectory(path)
        with suppress(WireError):
            task = find_running(directory.spec(), directory)
            if task is None:
                continue
            if task.prove(challenge):
                found.append(task)
            else:
                task.close()
    return found
