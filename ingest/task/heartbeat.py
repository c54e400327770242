"""The task's heartbeat: a thread of its own, at most a second apart, whatever the ingest thread is doing (PR-7)."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

from ingest.clock import Clock
from ingest.errors import AttemptRefused, IngestError
from ingest.protocol import TaskHeartbeat
from ingest.task.messages import Beaten, Event, Refused
from ingest.task.ports import OverlordActions

log = structlog.get_logger()

BEAT_S = 0.8


class Heartbeat:
    """``compose`` builds the beat from the task's last picture; the answer is posted as an event."""

    def __init__(
        self,
        actions: OverlordActions,
        compose: Callable[[], TaskHeartbeat],
        post: Callable[[Event], None],
        clock: Clock,
    ) -> None:
        self._actions = actions
        self._compose = compose
        self._post = post
        self._clock = clock
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._told = ""  # why the overlord is out of reach; empty while it is not
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        self._stopping.set()
        self._thread.join(timeout_s)

    def beat(self) -> None:
        """One heartbeat now; safe from any thread. An overlord out of reach is not an error: the task reads on."""
        with self._lock:
            try:
                reply = self._actions.heartbeat(self._compose())
            except AttemptRefused as error:
                self._post(Refused(self._clock.monotonic_ms(), str(error)))
                return
            except IngestError as error:
                if str(error) != self._told:
                    log.warning("overlord unreachable", error=str(error))
                self._told = str(error)
                return
            except Exception:  # a thread that dies would leave a living task to be taken for dead
                log.exception("heartbeat broke")
                return
            if self._told:
                log.info("overlord reached again")
            self._told = ""
        self._post(Beaten(self._clock.monotonic_ms(), reply))

    def _run(self) -> None:
        while not self._stopping.wait(BEAT_S):
            self.beat()
