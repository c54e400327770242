"""One partition's share of a poll while it is gathered, chunk by chunk."""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain

from ingest.stream.supplier import Headers, Poll


class Columns:
    """One partition's columns and the next offset after them."""

    __slots__ = ("end", "headers", "keys", "spans", "timestamps", "values")

    def __init__(self, position: int) -> None:
        self.end = position
        self.values: list[bytes | None] = []
        self.timestamps: list[int] = []
        self.keys: list[bytes | None] = []
        self.headers: list[Headers] = []
        self.spans: list[range | list[int]] = []

    def offsets(self) -> range | list[int]:
        """A range where nothing is missing, else a list."""
        if not self.spans:
            return range(0)
        first, last = self.spans[0][0], self.spans[-1][-1]
        if last - first + 1 == len(self.values):  # ascending and as many as fit: no hole
            return range(first, last + 1)
        return list(chain.from_iterable(self.spans))

    def poll(self, partition: int, first: int, end: int, wanted: Collection[str]) -> Poll:
        """The finished columns as the poll of ``[first, end)``."""
        return Poll(
            partition=partition,
            first_offset=first,
            end_offset=end,
            offsets=self.offsets(),
            values=self.values,
            timestamps_ms=self.timestamps,
            keys=self.keys if "keys" in wanted else None,
            headers=self.headers if "headers" in wanted else None,
        )
