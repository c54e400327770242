"""One partition: an append-only file of record batches with a sparse index in memory.

What an append has returned survives kill -9 (it is with the operating system), and a crash of the
machine too where ``sync`` is on. A torn tail is cut off when the file is opened.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
from array import array
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Iterator
from pathlib import Path

from server.devbroker.batches import HEADER, Batch, header, records, split, stamped, whole

_INDEX_BYTES = 8192  # at most so much is walked to find a batch
_CHUNK = 65536
_PRODUCERS_MAX = 1000
_REMEMBERED = 5  # batches a producer may have under way, as in Kafka
_SEQUENCES = 1 << 31

OUT_OF_ORDER, FENCED_EPOCH = 45, 47


class Refused(Exception):
    """A producer's sequence does not fit; ``code`` is Kafka's error."""

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(f"refused with error {code}")


class _Producer:
    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.recent: deque[tuple[int, int]] = deque(maxlen=_REMEMBERED)  # first sequence, base offset
        self.next = -1


class PartitionLog:
    """The file of one partition. For the event loop's thread only."""

    def __init__(self, path: Path, start: tuple[int, int] = (0, 0), *, sync: bool = False) -> None:
        self.start_offset, self.start_position = start
        self.next_offset = self.start_offset
        self.size = self.start_position
        self._sync = sync
        self._offsets, self._positions, self._peaks = array("q"), array("q"), array("q")
        self._peak = -1
        self._producers: OrderedDict[int, _Producer] = OrderedDict()
        self._waiting: set[asyncio.Future[None]] = set()
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._recover()

    # ------------------------------------------------------------ opening

    def _recover(self) -> None:
        on_disk = os.fstat(self._fd).st_size
        last: tuple[int, Batch] | None = None
        for position, batch in self._walk(self.start_position, on_disk):
            begins = batch.base_offset <= self.start_offset < batch.next_offset
            if not begins if last is None else batch.base_offset != self.next_offset:
                break
            self._note(position, batch)
            last = position, batch
        if last is not None and not whole(os.pread(self._fd, last[1].size, last[0])):
            # written by length but not by content: forget it and index what is before it anew
            os.ftruncate(self._fd, last[0])
            self._forget()
            self._recover()
            return
        if self.size < on_disk:
            os.ftruncate(self._fd, self.size)

    def _forget(self) -> None:
        self.next_offset, self.size, self._peak = self.start_offset, self.start_position, -1
        for index in (self._offsets, self._positions, self._peaks):
            del index[:]
        self._producers.clear()

    def _walk(self, position: int, end: int) -> Iterator[tuple[int, Batch]]:
        """Headers of whole batches from a batch's position on; ends at the first that is not one."""
        chunk, base = b"", position
        while position + HEADER <= end:
            if position - base + HEADER > len(chunk):
                chunk, base = os.pread(self._fd, _CHUNK, position), position
            batch = header(memoryview(chunk)[position - base :])
            if batch.magic != 2 or batch.size < HEADER or position + batch.size > end or batch.last_delta < 0:
                return
            yield position, batch
            position += batch.size

    def _note(self, position: int, batch: Batch) -> None:
        if not self._positions or position - self._positions[-1] >= _INDEX_BYTES:
            self._offsets.append(batch.base_offset)
            self._positions.append(position)
            self._peaks.append(self._peak)
        self._peak = max(self._peak, batch.max_timestamp_ms)
        self._remember(batch, batch.base_offset)
        self.next_offset = batch.next_offset
        self.size = position + batch.size

    # ------------------------------------------------------------ writing

    def append(self, data: memoryview, largest: int) -> int:
        """Appends a producer's batches, all or none, and returns the offset of the first.

        A batch that an idempotent producer sends again is not written again.

        Raises:
            BadBatch, Refused: nothing was written.
        """
        batches = split(data, largest)
        first = batches[0][0]
        if first.producer_id >= 0:
            known = self._check(first)
            if known is not None:
                return known
        offset, out = self.next_offset, []
        noted: list[Batch] = []
        for _, piece in batches:
            out.append(stamped(piece, offset))
            noted.append(header(out[-1]))
            offset = noted[-1].next_offset
        base = self.next_offset
        self._write(b"".join(out))
        position = self.size
        for batch in noted:
            self._note(position, batch)
            position += batch.size
        self._wake()
        return base

    def _write(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            at += os.pwrite(self._fd, data[at:], self.size + at)
        if self._sync:
            os.fdatasync(self._fd)

    def _check(self, batch: Batch) -> int | None:
        known = self._producers.get(batch.producer_id)
        if known is None or batch.producer_epoch > known.epoch:
            return None
        if batch.producer_epoch < known.epoch:
            raise Refused(FENCED_EPOCH)
        for sequence, offset in known.recent:
            if sequence == batch.base_sequence:
                return offset
        if batch.base_sequence != known.next:
            raise Refused(OUT_OF_ORDER)
        return None

    def _remember(self, batch: Batch, offset: int) -> None:
        if batch.producer_id < 0:
            return
        known = self._producers.get(batch.producer_id)
        if known is None or known.epoch != batch.producer_epoch:
            known = self._producers[batch.producer_id] = _Producer(batch.producer_epoch)
        self._producers.move_to_end(batch.producer_id)
        known.recent.append((batch.base_sequence, offset))
        known.next = (batch.base_sequence + batch.count) % _SEQUENCES
        if len(self._producers) > _PRODUCERS_MAX:
            self._producers.popitem(last=False)

    # ------------------------------------------------------------ reading

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches from the one that holds ``offset`` on: at least one, then up to ``max_bytes``."""
        if not self.start_offset <= offset < self.next_offset:
            return b""
        for position, batch in self._walk(self._near(offset), self.size):
            if batch.next_offset > offset:
                end = position
                for at, each in self._walk(position, min(self.size, position + max(max_bytes, batch.size))):
                    end = at + each.size
                return os.pread(self._fd, end - position, position)
        return b""

    def _near(self, offset: int) -> int:
        return self._entry(bisect_right(self._offsets, offset) - 1)

    def _entry(self, index: int) -> int:
        """Where to walk from: an entry's position, but never before the start, where the file is empty."""
        return max(self._positions[max(index, 0)], self.start_position) if self._positions else self.start_position

    def by_time(self, timestamp_ms: int) -> tuple[int, int]:
        """Offset and time of the first record at or after a time; (-1, -1) where there is none."""
        # an entry's peak is the largest time before it: the last one still below holds the record
        start = self._entry(bisect_right(self._peaks, timestamp_ms - 1) - 1)
        for position, batch in self._walk(start, self.size):
            if batch.max_timestamp_ms < timestamp_ms:
                continue
            for offset, found_ms in records(os.pread(self._fd, batch.size, position)):
                if found_ms >= timestamp_ms and offset >= self.start_offset:
                    return offset, found_ms
        return -1, -1

    def latest_time(self) -> tuple[int, int]:
        """Offset and time of the record with the largest time; (-1, -1) in an empty log."""
        return self.by_time(self._peak) if self.next_offset > self.start_offset else (-1, -1)

    def wait(self, waiting: asyncio.Future[None]) -> None:
        """Completes the future at the next append."""
        self._waiting.add(waiting)

    def leave(self, waiting: asyncio.Future[None]) -> None:
        """Takes a future back."""
        self._waiting.discard(waiting)

    def _wake(self) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
        self._waiting.clear()

    # ------------------------------------------------------------ ends

    def place(self, offset: int) -> tuple[int, int]:
        """Base offset and position of the batch that holds ``offset``, where a log may begin."""
        for position, batch in self._walk(self._near(offset), self.size):
            if batch.next_offset > offset:
                return batch.base_offset, position
        return self.next_offset, self.size

    def offset_at(self, position: int) -> int:
        """The offset of the first batch at or after a position of the file."""
        start = self._entry(bisect_right(self._positions, position) - 1)
        for at, batch in self._walk(start, self.size):
            if at >= position:
                return batch.base_offset
        return self.next_offset

    def start_at(self, offset: int) -> tuple[int, int]:
        """Begins the log at ``offset`` and returns what `punch` may free: everything before a position."""
        assert self.start_offset <= offset <= self.next_offset
        self.start_offset = offset
        _, self.start_position = self.place(offset)
        return offset, self.start_position

    def punch(self) -> None:
        """Gives the disk back what lies before the start. The new start must be stored by then."""
        keep, remove = 0x01, 0x02  # FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE
        size = ctypes.c_int64(self.start_position)
        if self.start_position:
            ctypes.CDLL(None).fallocate(self._fd, keep | remove, ctypes.c_int64(0), size)

    def close(self) -> None:
        """Writes through to the disk and closes."""
        os.fsync(self._fd)
        os.close(self._fd)
        self._wake()
