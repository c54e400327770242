"""The task machine's mailbox: events from every thread, and callers that wait for the answer to a command."""

from __future__ import annotations

import queue
import threading

from ingest.clock import Clock
from ingest.errors import CommandRefused
from ingest.protocol import PauseReport, TaskCommand
from ingest.task.messages import CommandReceived, Event, Reply


class _Waiting:
    """One caller of ``ask`` until its Reply comes."""

    def __init__(self, command: TaskCommand) -> None:
        self.command = command
        self.answered = threading.Event()
        self.reply: Reply | None = None


class TaskMailbox:
    """Taken from by the ingest thread only; safe to post to from any."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting: list[_Waiting] = []
        self._closed = False

    def post(self, event: Event) -> None:
        self._events.put(event)

    def take(self, wait_ms: int) -> Event | None:
        """The next event; waits up to ``wait_ms`` for one (0: not at all)."""
        try:
            return self._events.get(block=wait_ms > 0, timeout=wait_ms / 1_000)
        except queue.Empty:
            return None

    @property
    def is_empty(self) -> bool:
        return self._events.empty()

    def ask(self, command: TaskCommand, timeout_ms: int) -> PauseReport | None:
        """Hands a command to the machine and waits for its answer.

        Raises:
            CommandRefused: the machine says no, or did not come to it in time.
        """
        waiting = _Waiting(command)
        with self._lock:
            if self._closed:
                raise CommandRefused("the task has ended")
            self._waiting.append(waiting)
        self.post(CommandReceived(self._clock.monotonic_ms(), command))
        waiting.answered.wait(timeout_ms / 1_000)
        with self._lock:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
        if waiting.reply is None:
            raise CommandRefused("the task was too busy to answer in time")
        if waiting.reply.refused is not None:
            raise CommandRefused(waiting.reply.refused)
        return waiting.reply.report

    def answer(self, reply: Reply) -> None:
        """Wakes the oldest caller of this very command."""
        with self._lock:
            for waiting in self._waiting:
                if waiting.command is reply.command and not waiting.answered.is_set():
                    waiting.reply = reply
                    waiting.answered.set()
                    self._waiting.remove(waiting)
                    return

    def close(self) -> None:
        """Nothing is handled any more: whoever waits, or comes later, is refused at once."""
        with self._lock:
            self._closed = True
            for waiting in self._waiting:
                waiting.reply = Reply(waiting.command, refused="the task has ended")
                waiting.answered.set()
            self._waiting.clear()
