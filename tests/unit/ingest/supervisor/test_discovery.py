"""The look at a stream that a supervisor's other spec has overtaken."""

from __future__ import annotations

import threading

from ingest.clock import SystemClock
from ingest.stream.memory import MemoryStream, MemorySupplier
from ingest.supervisor.discovery import StreamDiscovery
from ingest.supervisor.messages import StreamFailed, StreamSeen


class StoppingClock(SystemClock):
    """Has the discovery stopped by another thread at the moment in which it is about to tell what it saw."""

    def __init__(self) -> None:
        self.stopped, self.asked = threading.Event(), threading.Event()
        self.stop = self.stopped.set

    def now_ms(self) -> int:
        if not self.asked.is_set():
            self.asked.set()
            threading.Thread(target=self._stop).start()
            self.stopped.wait(0.1)
        return super().now_ms()

    def _stop(self) -> None:
        self.stop()
        self.stopped.set()


def test_a_discovery_that_was_stopped_tells_nothing_more() -> None:
    stream, clock, late = MemoryStream(), StoppingClock(), list[bool]()
    stream.create_topic("clicks", 1)
    told = threading.Event()

    def post(event: StreamSeen | StreamFailed) -> None:
        late.append(clock.stopped.is_set())
        told.set()

    discovery = StreamDiscovery("clicks", lambda: MemorySupplier(stream, "clicks"), True, lambda: None, post, clock)
    clock.stop = discovery.stop
    discovery.start()
    assert clock.asked.wait(10) and clock.stopped.wait(10)
    assert told.wait(1) and late == [False], "the starts of a spec that is no longer the present one"
