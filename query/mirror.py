"""Keeps live chunks as Arrow IPC files on this node, fetched or hard-linked once, for as long as a view needs them."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from query.errors import ResourceLimitExceeded
from query.source import LiveAttempt
from segments.arrow_schema import column_of_field
from segments.errors import InvalidSchema, ServiceError
from segments.live import ChunkInfo
from segments.schema import ColumnSpec, ColumnType

# A name is never used twice: workers know files by their names.
_NAMES = itertools.count(1)

ChunkKey = tuple[str, int]
"""(attempt token, chunk number): a chunk's name (PR-5)."""


class ChunkUnreadable(ServiceError):
    """A chunk could not be fetched, or is not what the task said it is."""

    retryable = True


@dataclass(frozen=True, slots=True)
class MirroredChunk:
    """One chunk on the local disk. ``columns`` in the order of its Arrow schema; chunks of equal ``layout``
    can be read as one table. ``min_time_ms`` and ``max_time_ms`` are both inclusive."""

    key: ChunkKey
    name: str
    columns: tuple[ColumnSpec, ...]
    layout: str
    rows: int
    size_bytes: int
    min_time_ms: int
    max_time_ms: int


@dataclass(slots=True)
class _Entry:
    chunk: MirroredChunk | None = None
    pins: int = 0
    ready: threading.Event = field(default_factory=threading.Event)


class Mirror:
    """The folder of mirrored chunks; safe for many threads. Bytes of linked files count like fetched ones.

    Nothing survives a restart: tokens of tasks may be the same, but what was answered is forgotten, and a
    file whose name says nothing proves nothing. ``make_room`` is asked to let go of pins when the limit
    would be exceeded, and says whether it did.
    """

    def __init__(self, root: Path, max_bytes: int, local_hosts: frozenset[str]) -> None:
        self.root = root
        self.make_room: Callable[[], bool] = lambda: False
        self._max_bytes = max_bytes
        self._local_hosts = local_hosts
        self._lock = threading.Lock()
        self._entries: dict[ChunkKey, _Entry] = {}
        self._used_bytes = 0
        self._removed = 0
        root.mkdir(parents=True, exist_ok=True)
        for left in root.iterdir():
            left.unlink()

    @property
    def used_bytes(self) -> int:
        """Bytes of all mirrored files."""
        return self._used_bytes

    @property
    def removed(self) -> int:
        """How many files were removed so far."""
        return self._removed

    def __len__(self) -> int:
        return len(self._entries)

    def pin(
        self, attempt: LiveAttempt | None, token: str, chunk: ChunkInfo, fetch: Callable[[], bytes]
    ) -> MirroredChunk:
        """The chunk, brought if it is not here, and kept until ``unpin`` was called as often.

        Raises:
            ChunkUnreadable: it cannot be brought.
            ResourceLimitExceeded: the mirror is full of what running queries read.
        """
        key = (token, chunk.number)
        while True:
            with self._lock:
                entry = self._entries.get(key)
                brings = entry is None
                if entry is None:
                    entry = self._entries[key] = _Entry()
                entry.pins += 1
            if brings:
                self._bring(key, entry, attempt, chunk, fetch)
            entry.ready.wait()
            if entry.chunk is not None:
                return entry.chunk
            # Somebody else's try failed; ours decides what we see.

    def repin(self, keys: Iterable[ChunkKey]) -> None:
        """Pins chunks once more that the caller knows to be pinned."""
        with self._lock:
            for key in keys:
                self._entries[key].pins += 1

    def unpin(self, keys: Iterable[ChunkKey]) -> None:
        """Gives up one pin of each; a chunk without pins is removed."""
        with self._lock:
            for key in keys:
                entry = self._entries[key]
                entry.pins -= 1
                if not entry.pins and entry.chunk is not None:
                    self._remove(key, entry.chunk)

    def get(self, key: ChunkKey) -> MirroredChunk:
        """A pinned chunk."""
        with self._lock:
            chunk = self._entries[key].chunk
        assert chunk is not None, f"chunk {key} is not here"
        return chunk

    def _remove(self, key: ChunkKey, chunk: MirroredChunk) -> None:
        del self._entries[key]
        self._used_bytes -= chunk.size_bytes
        self._removed += 1
        (self.root / chunk.name).unlink(missing_ok=True)

    def _bring(
        self, key: ChunkKey, entry: _Entry, attempt: LiveAttempt | None, info: ChunkInfo, fetch: Callable[[], bytes]
    ) -> None:
        path = self.root / f"{next(_NAMES)}.arrow"
        try:
            if not self._link(attempt, info, path) and not self._join(key, info, path):
                self._write(fetch(), info, path)
            entry.chunk = _describe(key, path, info)
        except (OSError, pa.ArrowException, InvalidSchema) as error:
            raise ChunkUnreadable(f"live chunk {info.number} of attempt {key[0]} cannot be read: {error}") from error
        finally:
            if entry.chunk is None:
                path.unlink(missing_ok=True)
                with self._lock:
                    self._entries.pop(key, None)
            entry.ready.set()
        with self._lock:
            self._used_bytes += entry.chunk.size_bytes

    def _link(self, attempt: LiveAttempt | None, info: ChunkInfo, path: Path) -> bool:
        """Links or copies a spill of a task on this host; False when it has to be fetched."""
        if info.path is None or attempt is None or attempt.address.rpartition(":")[0] not in self._local_hosts:
            return False
        try:
            self._reserve(os.stat(info.path).st_size, info)
            try:
                os.link(info.path, path)
            except OSError:
                # Another file system.
                shutil.copyfile(info.path, path)
            # Somebody else's file of that name would have other rows.
            return _row_count(path) == info.rows
        except (OSError, pa.ArrowException):
            path.unlink(missing_ok=True)
            return False

    def _join(self, key: ChunkKey, info: ChunkInfo, path: Path) -> bool:
        """Puts a chunk together from those it replaces, if all are here; False when it has to be fetched.

        Equal row counts say that nothing was rolled up and nothing left out, so the rows are the same.
        """
        parts = [(key[0], number) for number in info.replaces]
        with self._lock:
            chunks = [entry.chunk for part in parts if (entry := self._entries.get(part)) is not None]
            here = [chunk for chunk in chunks if chunk is not None]
            is_whole = len(here) == len(parts) > 0 and sum(chunk.rows for chunk in here) == info.rows
            if not is_whole or len({chunk.layout for chunk in here}) > 1:
                return False
            for part in parts:
                self._entries[part].pins += 1
        try:
            self._reserve(sum(chunk.size_bytes for chunk in here), info)
            tables = [_open(self.root / chunk.name) for chunk in here]
            # One dictionary per column and one batch, or nothing would be won.
            table = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
        finally:
            self.unpin(parts)
        return True

    def _write(self, content: bytes, info: ChunkInfo, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._reserve(len(content), info)
        path.write_bytes(content)

    def _reserve(self, size_bytes: int, info: ChunkInfo) -> None:
        while self._used_bytes + size_bytes > self._max_bytes:
            if not self.make_room():
                raise ResourceLimitExceeded(
                    f"live chunk {info.number} of {size_bytes} bytes does not fit the mirror of live rows, which holds "
                    f"{self._used_bytes} of {self._max_bytes} bytes; raise the mirror's limit"
                )


def _open(path: Path) -> pa.Table:
    source = pa.memory_map(str(path))
    is_file = source.read(6) == b"ARROW1"
    source.seek(0)
    return pa.ipc.open_file(source).read_all() if is_file else pa.ipc.open_stream(source).read_all()


def _row_count(path: Path) -> int:
    return int(_open(path).num_rows)


def _describe(key: ChunkKey, path: Path, info: ChunkInfo) -> MirroredChunk:
    table = _open(path)
    if table.num_rows != info.rows:
        raise ChunkUnreadable(
            f"live chunk {info.number} of attempt {key[0]} has {table.num_rows} rows, its task said {info.rows}"
        )
    columns = tuple(_column(field) for field in table.schema)
    # All that is known of a column, since one chunk of a layout speaks for the others.
    layout = "\n".join(f"{field.type}\0{column}" for field, column in zip(table.schema, columns, strict=True))
    size_bytes = path.stat().st_size
    return MirroredChunk(key, path.name, columns, layout, info.rows, size_bytes, info.min_time_ms, info.max_time_ms)


def _column(field: pa.Field[Any]) -> ColumnSpec:
    with contextlib.suppress(InvalidSchema):
        return column_of_field(field)
    # Bytes: a sketch or another complex value, which only its own functions read.
    return ColumnSpec(field.name, ColumnType.COMPLEX, complex_type="binary")
