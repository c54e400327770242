"""Reads an answer frame by frame: as many rows as a client asked for, and no further than it has read."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa

from query.model import PlannedQuery, ResultColumn
from query.sql.types import Family
from server.avatica import types

Row = list[Any]


class Answer(Protocol):
    """A statement that runs."""

    @property
    def planned(self) -> PlannedQuery: ...

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Once, for one thread at a time."""
        ...

    def cancel(self) -> None:
        """Ends it, from any thread; who reads gets QueryCancelled."""
        ...

    def close(self) -> None:
        """Ends it wherever it stands; not while another thread reads."""
        ...


class Frames:
    """The rows of one answer, in order, each once. For any thread, one at a time; ``close`` interrupts a reader.

    ``announced`` are the columns that the client was told when the statement was prepared, if it was.
    """

    def __init__(self, answer: Answer, announced: Sequence[ResultColumn] = (), is_json: bool = True) -> None:
        self.columns = announced or answer.planned.result_columns
        self._answer = answer
        self._is_json = is_json
        self._batches = answer.batches()
        self._rows: list[Row] = []
        self._at = 0
        self.offset = 0
        self.is_done = False
        self._is_read_out = False
        self._lock = threading.Lock()

    @property
    def is_busy(self) -> bool:
        """Whether somebody reads it now."""
        return self._lock.locked()

    def next(self, most: int) -> tuple[int, bool, list[Row]]:
        """The offset of the next rows, whether they are the last, and at most so many of them.

        Raises:
            QueryError: the answer ended before its end; what was read until then is not an answer.
        """
        with self._lock:
            while not self._is_read_out and len(self._rows) - self._at < most:
                self._read_batch()
            taken = self._rows[self._at : self._at + most]
            begin, self.offset = self.offset, self.offset + len(taken)
            self._at += len(taken)
            if self._at == len(self._rows):
                self._rows, self._at = [], 0
            self.is_done = self._is_read_out and not self._rows
            return begin, self.is_done, taken

    def close(self) -> None:
        """Ends the statement; safe from any thread."""
        self._answer.cancel()
        with self._lock:
            self._answer.close()

    def _read_batch(self) -> None:
        batch = next(self._batches, None)
        if batch is None:
            self._is_read_out = True
            return
        planned = self._answer.planned
        cells = []
        for at, (column, told) in enumerate(zip(planned.result_columns, self.columns, strict=True)):
            found = types.values(batch.column(at), column.type, planned.time_zone, self._is_json)
            is_text = told.type.family is Family.STRING and column.type.family is not Family.STRING
            cells.append(types.as_texts(found) if is_text else found)
        self._rows = self._rows[self._at :]
        self._at = 0
        self._rows.extend(list(row) for row in zip(*cells, strict=True))


class StaticFrames:
    """Rows that are known already, as the one frame of an answer."""

    def __init__(self, rows: list[Row]) -> None:
        self._rows = rows
        self.is_done = True
        self.is_busy = False

    def next(self, most: int) -> tuple[int, bool, list[Row]]:
        """All of them."""
        rows, self._rows = self._rows, []
        return 0, True, rows

    def close(self) -> None:
        """Nothing."""
