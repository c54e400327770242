"""Finds out whether a failed statement met a damaged local file of a segment, and what is wrong with it; remembers
which segments cannot be had at all.

A file was proved when it came, but disks decay and people tidy up. What the engine says then is about the statement
("column not found") as often as about the file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from query.errors import QueryUnavailable
from segments.cache import SegmentCache
from segments.data_segment import DataSegment
from segments.errors import ServiceError


class Unreadable:
    """Segments that this node could not bring and that will not get better by waiting, until one is brought after
    all. A statement that only counts their rows asks for them, so that it fails as one that reads them does. Safe for
    many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids: set[str] = set()

    def note(self, segment: DataSegment, error: ServiceError) -> None:
        """It could not be brought; an error that passes by itself is forgotten."""
        if not error.retryable:
            with self._lock:
                self._ids.add(str(segment.id))

    def forget(self, segment: DataSegment) -> None:
        """It is here."""
        if self._ids:
            with self._lock:
                self._ids.discard(str(segment.id))

    def among(self, segments: Iterable[DataSegment]) -> list[DataSegment]:
        """Those of some segments; costs nothing while there are none."""
        return [segment for segment in segments if str(segment.id) in self._ids] if self._ids else []


def pin_each(
    cache: SegmentCache,
    unreadable: Unreadable,
    segments: Sequence[DataSegment],
    pinned: list[DataSegment],
    check: Callable[[], None],
) -> None:
    """Brings segments' local files and keeps them until they are unpinned; each that is held is added to ``pinned``.
    ``check`` is asked before each that has to be brought.

    Raises:
        QueryUnavailable: one cannot be brought.
    """
    for segment in cache.pin_held(segments, pinned):
        check()
        try:
            cache.pin(segment)
        except ServiceError as error:
            unreadable.note(segment, error)
            raise QueryUnavailable(
                f"segment {segment.id} cannot be read: {error}", {"segment": str(segment.id)}
            ) from error
        unreadable.forget(segment)
        pinned.append(segment)


def damage_of(path: Path, segment: DataSegment) -> str:
    """What is wrong with the file that should be this segment's, by its size and its end; empty when nothing is."""
    try:
        size = path.stat().st_size
        if size != segment.size_bytes:
            return f"has {size} bytes, {segment.size_bytes} were published"
        with pq.ParquetFile(path) as file:
            found = {field.name: field.type for field in file.schema_arrow}
    except FileNotFoundError:
        return "is gone"
    except (pa.ArrowException, OSError) as error:
        return f"cannot be read: {error}"
    for field in segment.schema.to_arrow():
        if field.name not in found:
            return f"lacks the column {field.name!r}"
        if found[field.name] != field.type:
            return f"has the column {field.name!r} as {found[field.name]}, not as {field.type}"
    return ""
