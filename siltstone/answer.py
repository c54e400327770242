"""A SQL answer on its way to a program: Arrow batches as the service makes them, in the memory of a few."""

from __future__ import annotations

import io
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import urllib3

from siltstone.values import ClientError

if TYPE_CHECKING:
    import pyarrow as pa


class Answer:
    """The rows of one statement. For one thread; iterate it, or read it whole by ``table``.

    ``close`` (or leaving its ``with``) before the end ends the query on the service. ``query_id`` is what
    ``Client.cancel`` takes, from any thread.
    """

    def __init__(self, url: str, response: urllib3.BaseHTTPResponse) -> None:
        import pyarrow as pa

        self._url = url
        self._response = response
        self.query_id = response.headers.get("X-Druid-SQL-Query-Id", "")
        try:
            self._reader = pa.ipc.open_stream(_Readable(response))
        except (pa.ArrowInvalid, OSError, urllib3.exceptions.HTTPError) as error:
            self.close()
            raise self._broken(error) from error

    @property
    def schema(self) -> pa.Schema:
        """Names and types of its columns; a field's metadata has ``druid.type`` and ``sql.type``."""
        return self._reader.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The batches, each once.

        Raises:
            ClientError: the answer broke off. What was read until then is not an answer.
        """
        import pyarrow as pa

        try:
            yield from self._reader
            # What makes it whole is the end of the HTTP body, not the last batch.
            self._response.read(1)
        except (pa.ArrowInvalid, OSError, urllib3.exceptions.HTTPError) as error:
            raise self._broken(error) from error
        finally:
            self.close()

    def table(self) -> pa.Table:
        """All of it. Raises as iteration does."""
        import pyarrow as pa

        return pa.Table.from_batches(list(self), self.schema)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The rows as tuples of Python's values: int, float, str, bool, datetime, date, list, Decimal, None."""
        for batch in self:
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def close(self) -> None:
        """Lets go of the connection; on the service the query ends, if it has not."""
        if not self._response.closed:
            # A connection with an unread body cannot be used again.
            self._response.close()
        self._response.release_conn()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def _broken(self, error: Exception) -> ClientError:
        return ClientError(
            f"the answer of {self._url} broke off ({error}): the query failed or was cancelled after its first rows; "
            "the service's log says why"
        )


class _Readable(io.RawIOBase):
    """The body as the file that Arrow wants: never short before its end."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        return self._response.read(None if size is None or size < 0 else size)
