"""Carries commands to tasks beside the supervisors' threads: one at a time to each task, apart to who does not answer.

A task that stands still keeps its caller for seconds, and is told again every second. Were each of these calls a job
of one pool, a single host that stands still would delay the rounds of all other groups, for minutes (design 4.11).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

import structlog

from ingest.clock import Clock
from ingest.errors import CommandRefused, IngestError
from ingest.protocol import PauseReport, TaskCommand
from ingest.supervisor.messages import TaskAnswered, TaskSilent
from ingest.supervisor.ports import TaskClient

log = structlog.get_logger()

CALLS_AT_ONCE = 16
DOUBTFUL_CALLS_AT_ONCE = 8

Post = Callable[[TaskAnswered | TaskSilent], None]


@dataclass(frozen=True, slots=True)
class Delivery:
    """One command on its way. ``message`` is what is sent, ``command`` what the answer is told about, to ``post``."""

    address: str
    token: str
    command: TaskCommand
    message: TaskCommand
    post: Post


class Deliveries:
    """Shared by the supervisors of one leadership; safe from any thread, and never waits.

    While one is under way to a task, only the newest command of each kind waits behind it: a newer one repeats what
    counts of those before. Who did not answer the last one is called by other threads than everybody else.
    """

    def __init__(self, tasks: TaskClient, clock: Clock) -> None:
        self._tasks = tasks
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: dict[str, dict[type[TaskCommand], Delivery]] = {}  # by token, of those that are called now
        self._doubtful: set[str] = set()
        self._over: set[str] = set()  # attempts that ended while they were called
        self._prompt = ThreadPoolExecutor(CALLS_AT_ONCE, thread_name_prefix="task-call")
        self._slow = ThreadPoolExecutor(DOUBTFUL_CALLS_AT_ONCE, thread_name_prefix="task-call-again")

    def send(self, delivery: Delivery) -> None:
        """Soon; ``TaskAnswered`` or ``TaskSilent`` is posted, unless a newer command of its kind takes its place."""
        with self._lock:
            behind = self._waiting.get(delivery.token)
            if behind is not None:
                behind.pop(type(delivery.command), None)
                behind[type(delivery.command)] = delivery
                return
            self._waiting[delivery.token] = {}
        self._submit(delivery)

    def forget(self, token: str) -> None:
        """The attempt has ended: what waits for it is dropped."""
        with self._lock:
            self._doubtful.discard(token)
            if token in self._waiting:
                self._waiting[token].clear()
                self._over.add(token)

    def __len__(self) -> int:
        """How many attempts something is remembered of."""
        with self._lock:
            return len(self._waiting.keys() | self._doubtful | self._over)

    def close(self) -> None:
        """Nothing more is sent; calls under way end by their own deadlines."""
        for pool in (self._prompt, self._slow):
            pool.shutdown(wait=False, cancel_futures=True)

    def _submit(self, delivery: Delivery) -> None:
        pool: Executor = self._slow if delivery.token in self._doubtful else self._prompt
        with suppress(RuntimeError):  # the pool is shut down: this leadership is over
            pool.submit(self._deliver, delivery)

    def _deliver(self, delivery: Delivery) -> None:
        event, answers = self._called(delivery)
        delivery.post(event)
        with self._lock:
            behind = self._waiting[delivery.token]
            (self._doubtful.discard if answers else self._doubtful.add)(delivery.token)
            following = behind.pop(next(iter(behind))) if behind else None
            if following is None:
                del self._waiting[delivery.token]
                if delivery.token in self._over:
                    self._over.discard(delivery.token)
                    self._doubtful.discard(delivery.token)
        if following is not None:
            self._submit(following)

    def _called(self, delivery: Delivery) -> tuple[TaskAnswered | TaskSilent, bool]:
        """What became of it, and whether the task answered at all."""
        token, command = delivery.token, delivery.command
        try:
            report: PauseReport | None = self._tasks.send(delivery.address, token, delivery.message)
        except IngestError as error:
            name = type(command).__name__
            log.info("task did not take a command", command=name, address=delivery.address, error=str(error))
            return TaskSilent(self._clock.monotonic_ms(), token, command), isinstance(error, CommandRefused)
        except Exception:  # whatever it is, the supervisor must hear that nothing came of it
            log.exception("command not delivered", command=type(command).__name__, address=delivery.address)
            return TaskSilent(self._clock.monotonic_ms(), token, command), False
        return TaskAnswered(self._clock.monotonic_ms(), token, command, report), True
