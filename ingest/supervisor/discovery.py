"""Looks at a supervisor's topic again and again, in a thread of its own, and says what is there.

A partition without a stored offset starts at a number resolved once: the first set at the earliest
or the latest offset as the spec says, one that appears later always at its first (design 7).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import structlog

from ingest.clock import Clock
from ingest.errors import IngestError, StoreUnreachable
from ingest.metadata.records import StreamOffsets
from ingest.offsets import OffsetMap, furthest
from ingest.protocol import Place
from ingest.stream.supplier import RecordSupplier
from ingest.supervisor.messages import StreamFailed, StreamSeen
from ingest.supervisor.time_lags import TimeLags

log = structlog.get_logger()

SEEN_EVERY_S = 3.0
RETRY_S = (0.3, 1.0, 2.0, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class StreamView:
    """The stream as last seen, for reports. ``seen_ms`` and ``failing_ms`` are wall-clock times; ``error`` is why
    nothing was seen since ``failing_ms``."""

    log_starts: OffsetMap = OffsetMap()
    log_ends: OffsetMap = OffsetMap()
    seen_ms: int | None = None
    error: str | None = None
    failing_ms: int | None = None
    topic_id: str | None = None
    time_lags: OffsetMap | None = None  # ms by partition, where the spec asks for them
    places: Mapping[int, Place] = field(default_factory=dict)


class StreamDiscovery:
    """Owns one supplier that reads no records. ``post`` gets StreamSeen and StreamFailed.

    A stream without stored offsets begins at its earliest (``beginning`` is True), its latest, or the given ones.
    """

    def __init__(
        self,
        supervisor: str,
        supplier: Callable[[], RecordSupplier],
        beginning: bool | OffsetMap,
        stored: Callable[[], StreamOffsets | None],
        post: Callable[[StreamSeen | StreamFailed], None],
        clock: Clock,
    ) -> None:
        self._build = supplier
        self._beginning = beginning
        self._stored = stored
        self._post = post
        self._clock = clock
        self.places: Mapping[int, Place] = {}  # of several topics; replaced as a whole
        self.carry_on: Callable[[OffsetMap, str | None], OffsetMap] = lambda starts, topic_id: starts
        self._read: Callable[[], OffsetMap] | None = None
        self._time_lags: TimeLags | None = None
        self._wake = threading.Event()
        self._stopping = False
        self._telling = threading.Lock()
        self._view = StreamView()
        self._thread = threading.Thread(target=self._run, name=f"discovery-{supervisor}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def measure_time_lags(self, every_ms: int, read: Callable[[], OffsetMap]) -> None:
        """From the start on also measures how far tasks are behind in time; ``read`` says how far they are."""
        self._read, self._time_lags = read, TimeLags(self._build, every_ms, self._clock)

    def stop(self) -> None:
        """Asks the thread to end; does not wait for a call to a silent broker. Nothing is posted after it."""
        with self._telling:
            self._stopping = True
        self._wake.set()

    def look_now(self) -> None:
        """Looks again without waiting for the period."""
        self._wake.set()

    @property
    def view(self) -> StreamView:
        return self._view

    def _run(self) -> None:
        supplier: RecordSupplier | None = None
        failures = 0
        while not self._stopping:
            try:
                if supplier is None:
                    supplier = self._build()
                self._see(supplier)
                failures, wait_s = 0, SEEN_EVERY_S
            except Exception as error:  # a thread that dies would never see a new partition, nor a lost one
                wait_s = RETRY_S[min(failures, len(RETRY_S) - 1)]
                failures += 1
                self._fail(error)
            self._wake.wait(wait_s)
            self._wake.clear()
        if supplier is not None:
            supplier.close()
        if self._time_lags is not None:
            self._time_lags.close()

    def _see(self, supplier: RecordSupplier) -> None:
        began_ms = self._clock.monotonic_ms()
        stored = self._stored()  # before the look: what is committed after it may lie beyond the ends seen
        topic_id = supplier.topic_id()
        partitions = supplier.partitions()
        log_starts = OffsetMap(supplier.earliest(partitions))
        log_ends = OffsetMap(supplier.latest(partitions))
        if stored is None:
            begins = self._beginning
            starts = begins if isinstance(begins, OffsetMap) else log_starts if begins else log_ends
        else:
            starts = log_starts.restrict(p for p in partitions if p not in stored.committed)
        starts = self.carry_on(starts, topic_id)
        committed = OffsetMap() if stored is None else stored.committed
        lags = self._view.time_lags
        with self._telling:
            if self._stopping:
                return
            self._view = StreamView(log_starts, log_ends, self._clock.now_ms(), None, None, topic_id, lags, self.places)
            self._post(StreamSeen(began_ms, topic_id, starts, log_starts, log_ends, committed=committed))
        if self._time_lags is not None and self._read is not None:
            self._view = replace(
                self._view, time_lags=self._time_lags.measure(furthest(committed, self._read()), log_ends)
            )

    def _fail(self, error: Exception) -> None:
        if self._stopping:
            return  # the spec is another one by now: what the old one could not reach is no news
        message = str(error) if isinstance(error, IngestError) else f"{type(error).__name__}: {error}"
        began_ms = self._view.failing_ms or self._clock.now_ms()
        self._view = replace(self._view, error=message, failing_ms=began_ms)
        if isinstance(error, StoreUnreachable):
            log.warning("stream not looked at", error=message)
            return
        if not isinstance(error, IngestError):
            log.error("look at the stream broke", exc_info=error)
        with self._telling:
            if not self._stopping:  # also a secret that is not to be had: nothing of the stream can be seen
                self._post(StreamFailed(self._clock.monotonic_ms(), message))
