"""Lets a worker go before its answer is read: what a slow reader has not taken yet waits here, on disk if it is much.

A worker that waits for a reader is a worker that nobody else can use, and readers may take minutes: a BI tool that
pages, a browser on a slow line. Most answers are one batch that is not full, whose end has come with it: the worker is
free before the batch is handed on. Else a thread reads ahead, a little in memory, the rest in a file without a name,
up to a bound, and up to another with all other answers. Past it the worker waits.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import IO

import pyarrow as pa

from query.errors import QueryError, QueryFailed
from query.result_cache import KeptRun
from query.runs import Run
from query.worker_wire import BATCH_ROWS

_LOOK_S = 0.5


class Room:
    """Bytes that all answers together may keep waiting, in memory and on disk; for any thread."""

    def __init__(self, memory_bytes: int = 256 << 20, disk_bytes: int = 8 << 30) -> None:
        self._lock = threading.Lock()
        self.memory_left = memory_bytes
        self.disk_left = disk_bytes

    def take_memory(self, size: int, always: bool = False) -> bool:
        """Whether there was room; ``always`` takes it also where there is none."""
        with self._lock:
            if not always and size > self.memory_left:
                return False
            self.memory_left -= size
            return True

    def take_disk(self, size: int) -> bool:
        """Whether there was room."""
        with self._lock:
            if size > self.disk_left:
                return False
            self.disk_left -= size
            return True

    def give_back(self, memory: int = 0, disk: int = 0) -> None:
        """What was taken before."""
        with self._lock:
            self.memory_left += memory
            self.disk_left += disk


@dataclass(frozen=True, slots=True)
class AheadSettings:
    """Bytes of one answer that wait in memory, and in a file in ``folder``; ``room`` is what it shares with others."""

    folder: Path
    memory_bytes: int = 8 << 20
    disk_bytes: int = 1 << 30
    room: Room = field(default_factory=Room)


@dataclass(frozen=True, slots=True)
class _Stored:
    """Where in the file a batch lies."""

    begin: int
    size: int


class ReadAhead:
    """The batches of one run, for one reader. ``close`` ends the run, unless they were read to their end."""

    def __init__(self, run: Run | KeptRun, settings: AheadSettings) -> None:
        self._run = run
        self._settings = settings
        self._changed = threading.Condition()
        self._ready: deque[pa.RecordBatch | _Stored] = deque()
        self._in_memory = 0
        self._file: IO[bytes] | None = None
        self._file_end = 0
        self._file_room = 0  # taken for the file, which keeps its size until nothing waits in it
        self._is_read_out = False
        self._is_closed = False
        self._error: QueryError | None = None
        self._thread: threading.Thread | None = None

    @property
    def is_over(self) -> bool:
        """Whether the run has ended and all of it was taken."""
        return self._run.is_over and not self._ready

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The batches in order, once.

        Raises:
            QueryError: the answer ended before its end; also if batches from before are not taken yet.
        """
        source: Iterator[pa.RecordBatch] = self._run.batches()
        if isinstance(self._run, KeptRun):
            yield from source
            return
        first = next(source, None)
        if first is None:
            return
        if first.num_rows < BATCH_ROWS:
            second = next(source, None)
            if second is None:
                yield first
                return
            source = chain((second,), source)
        self._run.on_cancel(self._look_again)
        self._kept(first)
        self._thread = threading.Thread(target=self._read, args=(source,), name="query-read-ahead", daemon=True)
        self._thread.start()
        while (batch := self._taken()) is not None:
            yield batch

    def _look_again(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """Ends the run wherever it stands; not while another thread takes batches."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._run.cancel()
            self._thread.join()
        self._run.close()
        self._drop_file()
        self._settings.room.give_back(memory=self._in_memory)
        self._in_memory = 0

    def _taken(self) -> pa.RecordBatch | None:
        with self._changed:
            while not self._ready and not self._is_read_out:
                self._changed.wait()
            if self._error is not None:
                raise self._error
            if not self._ready:
                self._drop_file()
                return None
            found = self._ready.popleft()
            batch = self._loaded(found) if isinstance(found, _Stored) else found
            if not isinstance(found, _Stored):
                self._in_memory -= found.nbytes
                self._settings.room.give_back(memory=found.nbytes)
            if self._file_end and not any(isinstance(one, _Stored) for one in self._ready):
                self._empty_file()
            self._changed.notify_all()
            return batch

    def _read(self, source: Iterator[pa.RecordBatch]) -> None:
        try:
            for batch in source:
                if not self._kept(batch):
                    break
        except QueryError as error:
            self._error = error
        except OSError as error:
            self._error = QueryFailed(f"rows that wait for their reader cannot be kept: {error.strerror or error}")
            self._run.cancel(self._error)
            with contextlib.suppress(QueryError):
                for _ in source:
                    pass
        except Exception as error:  # a thread that dies without a word would leave the reader waiting for ever
            self._error = QueryFailed(f"rows of the answer cannot be read: {type(error).__name__}: {error}")
            self._run.cancel(self._error)
        with self._changed:
            self._is_read_out = True
            self._changed.notify_all()

    def _kept(self, batch: pa.RecordBatch) -> bool:
        """Keeps one more batch, once there is room for it; False when nobody wants it any more. Of a query that was
        stopped it keeps nothing: the worker is free as soon as it has heard, however slow the reader."""
        content: pa.Buffer | None = None
        with self._changed:
            while not self._is_closed:
                if self._run.is_cancelled:
                    return True
                if self._has_memory_for(batch.nbytes):
                    self._in_memory += batch.nbytes
                    self._ready.append(batch)
                    self._changed.notify_all()
                    return True
                content = batch.serialize() if content is None else content
                if self._has_disk_for(content.size):
                    self._ready.append(self._stored(content))
                    self._changed.notify_all()
                    return True
                # What others give back nobody tells.
                self._changed.wait(_LOOK_S)
            return False

    def _has_memory_for(self, size: int) -> bool:
        """Takes it if so. A reader for whom nothing is ready gets the batch by memory, whatever waits for others, if
        the disk has no room either."""
        room = self._settings.room
        if self._ready:
            return self._in_memory + size <= self._settings.memory_bytes and room.take_memory(size)
        return room.take_memory(size, always=room.disk_left < size)

    def _has_disk_for(self, size: int) -> bool:
        """Takes it if so."""
        end = self._file_end + size
        growth = max(end - self._file_room, 0)
        if end > self._settings.disk_bytes or not self._settings.room.take_disk(growth):
            return False
        self._file_room += growth
        return True

    def _stored(self, content: pa.Buffer) -> _Stored:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._settings.folder)  # noqa: SIM115 (closed by _drop_file)
        place = _Stored(self._file_end, content.size)
        os.pwrite(self._file.fileno(), memoryview(content), place.begin)
        self._file_end += place.size
        return place

    def _loaded(self, place: _Stored) -> pa.RecordBatch:
        assert self._file is not None
        content = os.pread(self._file.fileno(), place.size, place.begin)
        return pa.ipc.read_record_batch(pa.py_buffer(content), self._run.schema)

    def _empty_file(self) -> None:
        if self._file is not None:
            os.ftruncate(self._file.fileno(), 0)
        self._settings.room.give_back(disk=self._file_room)
        self._file_end = self._file_room = 0

    def _drop_file(self) -> None:
        self._empty_file()
        file, self._file = self._file, None
        if file is not None:
            file.close()
