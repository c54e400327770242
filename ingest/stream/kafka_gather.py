"""Messages of a poll into columns, without a loop per record."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import groupby
from operator import itemgetter
from typing import cast

from confluent_kafka import KafkaError, Message

from ingest.stream.columns import Columns
from ingest.stream.supplier import Headers, Poll

# A consumed message always has these; the client's own types say that it may not.
_partition_of = cast("Callable[[Message], int]", Message.partition)
_offset_of = cast("Callable[[Message], int]", Message.offset)
_headers_of = cast("Callable[[Message], Headers | None]", Message.headers)
_second = itemgetter(1)


def partitions_of(messages: list[Message]) -> list[int]:
    """The numbers of one topic's messages."""
    return list(map(_partition_of, messages))


class Gathered:
    """Turns the messages of one poll into columns, chunk by chunk, so that no message outlives its chunk.

    ``number_of`` gives the partitions of messages as ``positions`` knows them.
    """

    def __init__(
        self,
        positions: Mapping[int, int],
        columns: Collection[str],
        number_of: Callable[[list[Message]], list[int]] = partitions_of,
    ) -> None:
        self._number_of = number_of
        self.count = 0
        self.size = 0  # bytes of the values
        self.ends: dict[int, int] = {}  # partition -> offset at which its end was reported
        self.errors: list[tuple[KafkaError, int]] = []
        self._positions = positions
        self._wanted = columns
        self._columns: dict[int, Columns] = {}

    def position(self, partition: int) -> int:
        """The next offset after what was gathered."""
        columns = self._columns.get(partition)
        return max(self._positions[partition] if columns is None else columns.end, self.ends.get(partition, 0))

    def add(self, messages: list[Message]) -> None:
        """Takes one batch in queue order; ends of partitions and errors are taken out."""
        if any(map(Message.error, messages)):
            messages = [m for m in messages if self._is_record(m)]
        at = 0
        for partition, run in groupby(self._number_of(messages)):
            size = sum(1 for _ in run)
            if partition in self._positions:
                self._extend(partition, messages[at : at + size])
            at += size

    def _is_record(self, message: Message) -> bool:
        error = message.error()
        if error is None:
            return True
        [number] = self._number_of([message])
        if error.code() == KafkaError._PARTITION_EOF:
            if number in self._positions:
                self.ends[number] = _offset_of(message)
        else:
            self.errors.append((error, number))
        return False

    def _extend(self, partition: int, chunk: list[Message]) -> None:
        columns = self._columns.get(partition)
        if columns is None:
            columns = self._columns[partition] = Columns(self._positions[partition])
        if _offset_of(chunk[0]) < columns.end:  # fetched again: never give a record twice
            chunk = [m for m in chunk if _offset_of(m) >= columns.end]
            if not chunk:
                return
        first, last = _offset_of(chunk[0]), _offset_of(chunk[-1])
        self.count += len(chunk)
        columns.end = last + 1
        values = list(map(Message.value, chunk))
        columns.values += values
        self.size += sum(map(len, filter(None, values)))
        full = last - first + 1 == len(chunk)
        columns.spans.append(range(first, last + 1) if full else list(map(_offset_of, chunk)))
        if "timestamps" in self._wanted:
            columns.timestamps.extend(map(_second, map(Message.timestamp, chunk)))
        if "keys" in self._wanted:
            columns.keys.extend(map(Message.key, chunk))
        if "headers" in self._wanted:
            columns.headers.extend(_headers_of(m) or () for m in chunk)

    def polls(self) -> list[Poll]:
        """One poll for each partition whose position moved."""
        out: list[Poll] = []
        for partition in self._columns.keys() | self.ends.keys():
            before, end = self._positions[partition], self.position(partition)
            columns = self._columns.get(partition) or Columns(before)
            if end > before:
                out.append(columns.poll(partition, before, end, self._wanted))
        return out
