"""Decides how a failed query is told: Druid's error body with its codes, personas, categories and HTTP statuses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from segments.errors import ServiceError
from segments.known import nearest

TEXT_MAX = 16 * 2**20
"""Characters of one text that a function may make."""
TOO_LONG = f"a text would have more than {TEXT_MAX} characters"
"""What the engine says when one would have more."""

_HTTP_STATUS = {
    "INVALID_INPUT": 400,
    "UNAUTHORIZED": 401,
    "FORBIDDEN": 403,
    "NOT_FOUND": 404,
    "CONFLICT": 409,
    "CAPACITY_EXCEEDED": 429,
    "CANCELED": 500,
    "DEFENSIVE": 500,
    "RUNTIME_FAILURE": 500,
    "UNCATEGORIZED": 500,
    "UNSUPPORTED": 501,
    "SERVICE_UNAVAILABLE": 503,
    "TIMEOUT": 504,
}


class QueryError(ServiceError):
    """A query that has no answer.

    ``legacy_code`` is Druid's older ``error`` text, which clients of Druid before 26 look at; ``context``
    values are texts, as in Druid.
    """

    legacy_code: ClassVar[str] = "Unknown exception"
    error_code: ClassVar[str] = "general"
    persona: ClassVar[str] = "OPERATOR"
    category: ClassVar[str] = "UNCATEGORIZED"

    def __init__(self, message: str, context: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.context = dict(context or {})

    def placed(self) -> None:
        """Lets the message end with the place that the context tells, in Druid's words."""
        line, column = self.context.get("line"), self.context.get("column")
        if line and column and "(line [" not in self.message:
            self.message = f"{self.message} (line [{line}], column [{column}])"
            self.args = (self.message,)

    @property
    def status(self) -> int:
        """The HTTP status of the answer."""
        return _HTTP_STATUS[self.category]

    def body(self, host: str | None = None) -> dict[str, object]:
        """The JSON body: Druid's exception object, with the members older clients read beside it."""
        return {
            "error": self.legacy_code,
            "errorCode": self.error_code,
            "persona": self.persona,
            "category": self.category,
            "errorMessage": self.message,
            "errorClass": f"org.apache.druid.error.{self.category}",
            "host": host,
            "context": self.context,
        }


class InvalidQuery(QueryError):
    """The statement or request is at fault; its writer can cure it."""

    legacy_code = "Plan validation failed"
    error_code = "invalidInput"
    persona = "USER"
    category = "INVALID_INPUT"


class SqlParseError(InvalidQuery):
    """The text is not SQL that we read; ``line`` and ``column`` count from 1."""

    legacy_code = "SQL parse failed"

    def __init__(self, message: str, line: int = 1, column: int = 1, token: str = "") -> None:
        super().__init__(message, position(line, column, token))


class UnknownName(InvalidQuery):
    """A table, column or function that does not exist; the message offers the nearest names.

    ``within`` says where it was looked for, ``cure`` what else may have been meant, when no name is near.
    """

    def __init__(
        self,
        kind: str,
        name: str,
        known: Iterable[str],
        where: dict[str, str] | None = None,
        within: str = "",
        cure: str = "",
    ) -> None:
        super().__init__(f"{kind} {name!r} not found{within}{did_you_mean(name, known) or cure}", where)


class UnsupportedQuery(QueryError):
    """Understood, but not built."""

    legacy_code = "Unsupported operation"
    error_code = "general"
    persona = "USER"
    category = "UNSUPPORTED"


class ResourceLimitExceeded(QueryError):
    """The query needs more memory, rows or size than it may have."""

    legacy_code = "Resource limit exceeded"
    error_code = "resourceLimit"
    persona = "USER"
    category = "INVALID_INPUT"


class QueryCapacityExceeded(QueryError):
    """Too many queries are waiting already."""

    legacy_code = "Query capacity exceeded"
    error_code = "capacityExceeded"
    category = "CAPACITY_EXCEEDED"
    retryable = True


class QueryTimeout(QueryError):
    """The query did not end in the time it was given."""

    legacy_code = "Query timeout"
    error_code = "queryTimeout"
    category = "TIMEOUT"
    retryable = True


class QueryCancelled(QueryError):
    """Somebody cancelled the query."""

    legacy_code = "Query cancelled"
    error_code = "queryCanceled"
    persona = "USER"
    category = "CANCELED"


class QueryUnavailable(QueryError):
    """What the query must see cannot be read now: a segment, a task, the database."""

    legacy_code = "Query interrupted"
    error_code = "serviceUnavailable"
    category = "SERVICE_UNAVAILABLE"
    retryable = True


class QueryFailed(QueryError):
    """The engine gave up on a statement that had been accepted."""

    error_code = "general"
    persona = "OPERATOR"
    category = "RUNTIME_FAILURE"


def position(line: int, column: int, token: str = "", width: int = 0) -> dict[str, str]:
    """The error context that says where in the statement something stands; counted from 1. ``width`` is how many
    characters of the line it takes, as many as the token has unless it is told."""
    end_column = column + max(width or len(token), 1) - 1
    where = {"sourceType": "sql", "line": str(line), "column": str(column)}
    where |= {"endLine": str(line), "endColumn": str(end_column)}
    return where | ({"token": token} if token else {})


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message that offers the nearest names; empty when none is near."""
    near = nearest(name, known, 3)
    return f"; did you mean {' or '.join(repr(match) for match in near)}?" if near else ""
