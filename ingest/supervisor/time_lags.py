"""How far behind a supervisor's tasks are in time: the newest record's time less that of the first unread one.

Two records a partition are read for it, now and then, by a supplier of its own; nothing else depends on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ingest.clock import Clock
from ingest.errors import StreamError
from ingest.offsets import OffsetMap
from ingest.stream.supplier import RecordSupplier

LOOK_MS = 2_000
"""One measurement takes no longer, whatever the broker does; what was not answered by then is left out."""
BACK = (1, 16, 256)
"""So far before the end a newest record is looked for: what lies at the end may be markers and aborted records."""


class TimeLags:
    """For one thread, the one that looks at the stream."""

    def __init__(self, supplier: Callable[[], RecordSupplier], every_ms: int, clock: Clock) -> None:
        self._build = supplier
        self._every_ms = every_ms
        self._clock = clock
        self._supplier: RecordSupplier | None = None
        self._due_ms: int | None = None
        self._lags = OffsetMap()

    def measure(self, read: Mapping[int, int], ends: OffsetMap) -> OffsetMap:
        """Milliseconds by partition; 0 where everything up to ``ends`` was ``read``, absent where a time could not
        be learnt. Anew once ``every_ms``, else as measured last."""
        now_ms = self._clock.monotonic_ms()
        if not read or (self._due_ms is not None and now_ms < self._due_ms):
            return self._lags  # as measured last; nothing where no offset is known yet
        self._due_ms = now_ms + self._every_ms
        behind = {p: read[p] for p, end in ends.items() if p in read and read[p] < end}
        lags = {p: 0 for p, end in ends.items() if read.get(p, -1) >= end}
        try:
            lags |= self._of(behind, ends) if behind else {}
        except StreamError:
            self.close()  # its own trouble shows where the stream is looked at; the next one begins anew
        self._lags = OffsetMap(lags)
        return self._lags

    def close(self) -> None:
        supplier, self._supplier = self._supplier, None
        if supplier is not None:
            supplier.close()

    def _of(self, behind: dict[int, int], ends: OffsetMap) -> dict[int, int]:
        deadline_ms = self._clock.monotonic_ms() + LOOK_MS
        oldest = self._times(behind, deadline_ms)
        newest: dict[int, int] = {}
        for back in BACK:
            missing = [p for p in oldest if p not in newest]
            newest |= self._times({p: max(ends[p] - back, behind[p]) for p in missing}, deadline_ms)
        if self._clock.monotonic_ms() >= deadline_ms:  # who was not asked to the end is not told as without lag
            oldest = {p: time_ms for p, time_ms in oldest.items() if p in newest}
        return {p: max(newest.get(p, time_ms) - time_ms, 0) for p, time_ms in oldest.items()}

    def _times(self, offsets: dict[int, int], deadline_ms: int) -> dict[int, int]:
        """Kafka's time of the first record at or after each offset, as far as there is one."""
        if not offsets:
            return {}
        if self._supplier is None:
            self._supplier = self._build()
        supplier, found = self._supplier, dict[int, int]()
        ends = supplier.last_stable(list(offsets))
        supplier.assign(offsets)
        waiting = {p for p, offset in offsets.items() if offset < ends[p]}
        while waiting and (left_ms := deadline_ms - self._clock.monotonic_ms()) > 0:
            for poll in supplier.poll(len(offsets), left_ms):
                if poll.timestamps_ms:
                    found.setdefault(poll.partition, poll.timestamps_ms[0])
                if poll.partition in waiting and (poll.timestamps_ms or poll.end_offset >= ends[poll.partition]):
                    waiting.discard(poll.partition)
                    supplier.pause([poll.partition])
        supplier.assign({})
        return found
