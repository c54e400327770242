"""Python's DB-API 2.0 (PEP 249) over the client: ``connect("http://127.0.0.1:8888")``, cursors that read as rows come.

There are no transactions: commit does nothing, rollback neither. A cursor is for one thread, a connection for any.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Self

from siltstone.answer import Answer
from siltstone.client import DEFAULT_URL, Client
from siltstone.values import ApiError, ClientError

apilevel = "2.0"
threadsafety = 2
paramstyle = "qmark"

Row = tuple[Any, ...]
Description = tuple[str, str, None, None, None, None, bool]

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
DateFromTicks = datetime.date.fromtimestamp
Binary = bytes


def TimestampFromTicks(ticks: float) -> datetime.datetime:  # noqa: N802 (PEP 249's name)
    """The instant, in UTC."""
    return datetime.datetime.fromtimestamp(ticks, datetime.UTC)


class TypeName:
    """One of PEP 249's kinds of columns; equal to the ``type_code`` of every column of that kind."""

    def __init__(self, *names: str) -> None:
        self._names = frozenset(names)

    def __eq__(self, other: object) -> bool:
        return other in self._names if isinstance(other, str) else self is other

    def __hash__(self) -> int:
        return hash(self._names)


STRING = TypeName("VARCHAR", "CHAR")
NUMBER = TypeName("BIGINT", "INTEGER", "DOUBLE", "FLOAT", "DECIMAL", "BOOLEAN")
DATETIME = TypeName("TIMESTAMP", "DATE")
BINARY = TypeName()
ROWID = TypeName()


class Warning(Exception):  # noqa: A001 (PEP 249's name)
    """Never raised; PEP 249 wants it."""


class Error(Exception):
    """Whatever went wrong."""


class InterfaceError(Error):
    """The interface was used wrongly: a cursor that is closed, no answer to read."""


class DatabaseError(Error):
    """The service said no, or could not be asked."""


class DataError(DatabaseError):
    """Never raised; PEP 249 wants it."""


class OperationalError(DatabaseError):
    """Not the statement's fault: the service is away, busy, or the query took too long."""


class IntegrityError(DatabaseError):
    """Never raised; PEP 249 wants it."""


class InternalError(DatabaseError):
    """Never raised; PEP 249 wants it."""


class ProgrammingError(DatabaseError):
    """The statement or a parameter is at fault."""


class NotSupportedError(DatabaseError):
    """Understood, but not built."""


def connect(url: str = DEFAULT_URL, context: dict[str, Any] | None = None, timeout_s: float = 300.0) -> Connection:
    """A connection; ``context`` goes with every statement (``sqlTimeZone``, ``timeout``, ...).

    Raises:
        InterfaceError: ``url`` is no ``http://HOST:PORT``.
    """
    try:
        return Connection(Client(url, timeout_s), dict(context or {}))
    except ClientError as error:
        raise InterfaceError(str(error)) from error


class Connection:
    """Makes cursors."""

    # PEP 249's optional extension, by which libraries find the classes of errors.
    Warning, Error, InterfaceError, DatabaseError = Warning, Error, InterfaceError, DatabaseError
    OperationalError, ProgrammingError, NotSupportedError = OperationalError, ProgrammingError, NotSupportedError
    DataError, IntegrityError, InternalError = DataError, IntegrityError, InternalError

    def __init__(self, client: Client, context: dict[str, Any]) -> None:
        self.client = client
        self.context = context
        self._is_closed = False

    def cursor(self) -> Cursor:
        """A new cursor."""
        if self._is_closed:
            raise InterfaceError("the connection is closed")
        return Cursor(self)

    def commit(self) -> None:
        """Nothing: there are only queries."""

    def rollback(self) -> None:
        """Nothing: there are only queries."""

    def close(self) -> None:
        """No more cursors; those that are open go on."""
        self._is_closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()


class Cursor:
    """One statement's answer at a time, read as it comes."""

    arraysize = 1
    rowcount = -1

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.description: list[Description] | None = None
        self._answer: Answer | None = None
        self._rows: Iterator[Row] | None = None
        self._is_closed = False

    @property
    def query_id(self) -> str:
        """What ``connection.client.cancel`` takes; empty without an answer."""
        return "" if self._answer is None else self._answer.query_id

    def execute(self, operation: str, parameters: Sequence[Any] = ()) -> Self:
        """Runs one SELECT; ``parameters`` stand for its question marks.

        Raises:
            ProgrammingError: the statement is at fault.
            OperationalError: it has no answer now.
        """
        self._begin()
        try:
            self._answer = self.connection.client.stream(operation, parameters, self.connection.context)
        except ClientError as error:
            raise _translated(error) from error
        self.description = [
            (field.name, (field.metadata or {}).get(b"sql.type", b"VARCHAR").decode(), None, None, None, None, True)
            for field in self._answer.schema
        ]
        self._rows = self._answer.rows()
        return self

    def executemany(self, operation: str, seq_of_parameters: Sequence[Sequence[Any]]) -> Self:
        """PEP 249 leaves what this means for queries open; there is nothing else, so it is refused."""
        raise NotSupportedError("executemany: there are only queries, and each has its own answer; use execute")

    def fetchone(self) -> Row | None:
        """The next row; None after the last."""
        if self._rows is None:
            raise InterfaceError("no statement was executed")
        try:
            return next(self._rows, None)
        except ClientError as error:
            raise _translated(error) from error

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """At most so many rows, ``arraysize`` by default; empty after the last."""
        wanted = self.arraysize if size is None else size
        found: list[Row] = []
        while len(found) < wanted and (row := self.fetchone()) is not None:
            found.append(row)
        return found

    def fetchall(self) -> list[Row]:
        """All rows that are left."""
        return list(self)

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Nothing, as PEP 249 allows."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Nothing, as PEP 249 allows."""

    def close(self) -> None:
        """Ends the statement, also on the service."""
        self._is_closed = True
        self._end()

    def _begin(self) -> None:
        if self._is_closed:
            raise InterfaceError("the cursor is closed")
        self._end()

    def _end(self) -> None:
        answer, self._answer, self._rows, self.description = self._answer, None, None, None
        if answer is not None:
            answer.close()

    def __iter__(self) -> Iterator[Row]:
        while (row := self.fetchone()) is not None:
            yield row

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()


def _translated(error: ClientError) -> DatabaseError:
    if not isinstance(error, ApiError):
        return OperationalError(str(error))
    if error.status == 501:
        return NotSupportedError(str(error))
    return ProgrammingError(str(error)) if error.status == 400 else OperationalError(str(error))
