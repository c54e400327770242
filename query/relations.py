"""Remembers relations that were put together for plans that serve again, over files that are still the same.

A plan from the plan cache has the parts that it had before, and a table that did not change has the segments and live
chunks that it had: then the relation is the same text, and a table of a thousand segments need not be spelled again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

import pyarrow as pa

from query.binding import Relation
from query.mirror import MirroredChunk
from query.model import TableUse
from segments.data_segment import DataSegment


@dataclass(frozen=True, slots=True)
class Assembled:
    """A relation over ``needed`` segments and some chunks, with ``rows`` stored rows in all."""

    relation: Relation
    needed: tuple[DataSegment, ...]
    rows: int


@dataclass(frozen=True, slots=True)
class _Kept:
    use: TableUse
    segments: tuple[DataSegment, ...]
    chunks: tuple[MirroredChunk, ...]
    assembled: Assembled


def streamed(rows: pa.Table) -> bytes:
    """Rows at hand as a relation holds them: an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    content: bytes = sink.getvalue().to_pybytes()
    return content


class Relations:
    """At most ``most``, the least recently used going first. Safe for many threads."""

    def __init__(self, most: int = 256) -> None:
        self._most = most
        self._lock = threading.Lock()
        # By identity, which an entry keeps alive: a plan's parts are large to hash.
        self._kept: OrderedDict[int, _Kept] = OrderedDict()
        self.hits = 0

    def get(
        self, use: TableUse, segments: tuple[DataSegment, ...], chunks: tuple[MirroredChunk, ...]
    ) -> Assembled | None:
        """What was kept for that very part of a plan, if the table still is what it was."""
        with self._lock:
            kept = self._kept.get(id(use))
            if kept is None or kept.use is not use or kept.segments is not segments or kept.chunks != chunks:
                return None
            self._kept.move_to_end(id(use))
            self.hits += 1
            return kept.assembled

    def put(
        self,
        use: TableUse,
        segments: tuple[DataSegment, ...],
        chunks: tuple[MirroredChunk, ...],
        assembled: Assembled,
    ) -> None:
        """Keeps one in the place of what was kept for that part of a plan."""
        with self._lock:
            self._kept[id(use)] = _Kept(use, segments, chunks, assembled)
            self._kept.move_to_end(id(use))
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
