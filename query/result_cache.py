"""Keeps small answers for who asks the same of the same rows again: a dashboard that many look at.

An answer is known by its statement and by the files it read, whose names stand for their content for ever: a new
segment, a new live chunk or a new lookup is another key. So nothing needs to be told when rows arrive, and an answer
from here is the answer. Statements that read what is at hand (``sys`` tables) are not kept.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from query.binding import Function, Relation
from query.errors import QueryError

SHARE = 64
"""One answer may take this part of the whole."""


@dataclass(frozen=True, slots=True)
class Kept:
    """An answer as it was."""

    schema: pa.Schema
    batches: tuple[pa.RecordBatch, ...]
    size_bytes: int


class ResultCache:
    """The least recently used go first when ``max_bytes`` are exceeded; 0 keeps nothing. Safe for many threads."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[bytes, Kept] = OrderedDict()
        self._forgotten = 0
        self.used_bytes = 0
        self.hits = 0
        self.misses = 0

    @property
    def answer_bytes(self) -> int:
        """The largest answer that is kept."""
        return self._max_bytes // SHARE

    def key(self, sql: str, relations: Sequence[Relation], functions: Sequence[Function]) -> bytes | None:
        """What the answer is known by; None when it is not to be kept."""
        if not self._max_bytes or not relations or any(relation.rows for relation in relations):
            return None
        digest = hashlib.blake2b(f"{self._forgotten}\0{sql}".encode(), digest_size=32)
        for relation in relations:
            digest.update(f"\0{relation.name}\0{relation.sql}".encode())
            for source in relation.arrow:
                digest.update(f"\0{source.name}\0{source.columns}\0{source.paths}".encode())
        digest.update("".join(f"\0{function}" for function in functions).encode())
        return digest.digest()

    def get(self, key: bytes) -> Kept | None:
        """The answer, if it is there."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                self.misses += 1
                return None
            self.hits += 1
            self._kept.move_to_end(key)
            return found

    def put(self, key: bytes, schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> None:
        """Keeps a whole answer."""
        size = sum(batch.nbytes for batch in batches) + 1_000
        if size > self.answer_bytes:
            return
        with self._lock:
            before = self._kept.pop(key, None)
            self.used_bytes += size - (0 if before is None else before.size_bytes)
            self._kept[key] = Kept(schema, tuple(batches), size)
            while self.used_bytes > self._max_bytes:
                self.used_bytes -= self._kept.popitem(last=False)[1].size_bytes

    def forget(self) -> None:
        """Keeps nothing of what was made, or begun, so far: a file was not what its name says."""
        with self._lock:
            self._forgotten += 1
            self._kept.clear()
            self.used_bytes = 0


class KeptRun:
    """An answer from the cache in the place of a run."""

    is_over = True

    def __init__(self, kept: Kept) -> None:
        self.schema = kept.schema
        self._batches = kept.batches

    def batches(self) -> Iterator[pa.RecordBatch]:
        """As they were."""
        yield from self._batches

    def cancel(self, reason: QueryError | None = None) -> None:
        """There is nothing to end."""

    @property
    def is_cancelled(self) -> bool:
        """Never: there is nothing to stop."""
        return False

    def on_close(self, callback: Callable[[], None]) -> None:
        """At once."""
        callback()

    def close(self) -> None:
        """There is nothing to end."""
