"""Reads the stream for the windows the machine wants filled: one poll at a time, cut along ends and limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import structlog

from ingest.clock import Clock
from ingest.errors import StreamError
from ingest.offsets import OffsetMap
from ingest.protocol import TaskSpec
from ingest.spec import parse_supervisor_spec
from ingest.spec.formats import parts_read
from ingest.spec.model import Bounds
from ingest.stream.supplier import OffsetOutOfRange, Poll, RecordSupplier, TopicRecreated
from ingest.task.messages import ReadWindow
from ingest.task.polls import split_at_ends
from ingest.task.rows import Appended, TaskRows

log = structlog.get_logger()

POLL_WAIT_MS = 4
"""How long a caught-up task waits for records before it looks into its mailbox."""
BATCH_MESSAGES = 16_384
RETRY_MS = 500

Suppliers = Callable[[dict[str, Any], frozenset[str]], RecordSupplier]
"""Builds a supplier from a supervisor spec as posted; it connects on first use. Raises IngestError.

The names are those of ``ingest.spec.formats``: what a record is read with beside its value and time.
"""


_Properties = tuple[dict[str, Any], Bounds | None]


class StreamReader:
    """Owns the supplier and what was polled but not yet appended. For the ingest thread.

    ``error`` says why nothing can be read at present, for people; it may be read from any thread.
    """

    def __init__(
        self,
        suppliers: Suppliers,
        posted: dict[str, Any],
        rows: TaskRows,
        clock: Clock,
        earlier: Iterable[dict[str, Any]] = (),
    ) -> None:
        self._suppliers = suppliers
        self._properties, parts = _read_of(posted)
        # Sequences of earlier specs may still be read, and want what those said.
        self._parts = parts.union(*(_read_of(spec)[1] for spec in earlier))
        self._supplier = suppliers(posted, self._parts)
        self._rows = rows
        self._clock = clock
        self._pending: list[Poll] = []
        self._seek_due = False
        self._paused: frozenset[int] = frozenset()
        self._again_ms = 0
        self.error: str | None = None

    @property
    def has_pending(self) -> bool:
        return bool(self._pending)

    def may_read(self) -> bool:
        """False for a moment after a failure of the stream."""
        return self._clock.monotonic_ms() >= self._again_ms

    def connect(self, posted: dict[str, Any]) -> None:
        """Reads on by this spec's consumer properties; where they changed, over a connection of their own,
        for the one before may lead to a broker that never answers.

        Raises:
            IngestError: the spec's properties cannot be used here; what was in use stays so.
        """
        properties, parts = _read_of(posted)
        if properties == self._properties and parts <= self._parts:
            return
        before, self._supplier = self._supplier, self._suppliers(posted, self._parts | parts)
        self._properties, self._parts = properties, self._parts | parts
        self._pending, self._seek_due, self._again_ms = [], True, 0
        before.close()

    def close(self) -> None:
        """Lets the stream go; nothing is called afterwards."""
        self._supplier.close()

    def seek(self, positions: OffsetMap) -> None:
        """Forgets what was polled and reads on there, every partition of the group."""
        self._pending, self._seek_due = [], False
        self._supplier.assign(positions)
        self._paused = frozenset()

    def fill(self, windows: Sequence[ReadWindow], positions: OffsetMap) -> None:
        """Polls unless something is pending; leaves partitions alone that no window wants.

        Raises:
            StreamError: noted in ``error``; ``may_read`` is False for a moment.
        """
        try:
            if self._seek_due:
                self.seek(positions)
            self._follow(windows, positions)
            if not self._pending:
                self._pending = self._supplier.poll(BATCH_MESSAGES, POLL_WAIT_MS)
                self.error = None
        except StreamError as error:
            self._note(error)
            # A partition whose offset does not exist stands still until it is assigned anew: say so again.
            self._seek_due = self._seek_due or isinstance(error, OffsetOutOfRange)
            raise

    def append_some(self, windows: Sequence[ReadWindow]) -> tuple[int, Appended] | None:
        """Appends what fits the first window that wants some of it; the rest stays pending.

        None when nothing wants it now: it is read again once something does.

        Raises:
            StreamError: what the records are read by cannot be had; noted as by ``fill``, and all of it
                stays pending.
        """
        for window in windows:
            inside, after = split_at_ends(self._pending, window.end)
            if inside:
                try:
                    appended = self._rows.append(window.number, inside)
                except StreamError as error:
                    self._note(error)
                    raise
                self.error = None
                self._pending = [*appended.rest, *after]
                return window.number, appended
        self._pending, self._seek_due = [], True
        return None

    def _note(self, error: StreamError) -> None:
        if self.error is None:
            log.warning("stream not readable", error=str(error))
        self.error = str(error)
        self._again_ms = self._clock.monotonic_ms() + RETRY_MS

    def log_starts(self, partitions: Sequence[int]) -> dict[int, int]:
        """The first offsets the stream still has; empty when they cannot be learnt now."""
        try:
            return self._supplier.earliest(partitions)
        except StreamError as error:
            log.warning("log start not learnt", error=str(error))
            return {}

    def prove_topic(self, spec: TaskSpec) -> None:
        """Raises TopicRecreated when the topic is no longer the one the task was made for; for the publish thread."""
        expected, found = spec.topic_id, self._supplier.topic_id()
        if expected is not None and found is not None and found != expected:
            raise TopicRecreated(spec.topic, expected, found)

    def _follow(self, windows: Sequence[ReadWindow], positions: OffsetMap) -> None:
        end = windows[-1].end
        full = frozenset() if end is None else frozenset(p for p, o in positions.items() if o >= end.get(p, o))
        if full != self._paused:
            self._supplier.pause(full - self._paused)
            self._supplier.resume(self._paused - full)
            self._paused = full


def _read_of(posted: dict[str, Any]) -> tuple[_Properties, frozenset[str]]:
    """How a spec's records are read: the client's properties with the bounds, and the parts that are wanted."""
    spec = parse_supervisor_spec(posted)[0]
    return (spec.io.consumer_properties, spec.io.bounds), parts_read(spec.data_schema)
