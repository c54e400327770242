"""What runs on a query node now, as ``sys.queries`` tells it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import orjson

from query.model import SqlRequest
from segments.civil import format_iso_ms

Begun = Callable[[Callable[[], None]], None]
"""Is told what cancels a query, from any thread."""


def ignored(cancel: Callable[[], None]) -> None:
    """For who never cancels."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A query as it was asked: its id ("" without one), whether it is SQL, its text, when it came (ms UTC), and how
    many wait for the same answer."""

    id: str
    is_sql: bool
    content: str
    came_ms: int
    askers: int = 1

    def told(self, state: str) -> dict[str, object]:
        """With Druid's names of its members."""
        kind = "sql" if self.is_sql else "query"
        return {
            "sqlQueryId" if self.is_sql else "queryId": self.id,
            kind: self.content,
            "state": state,
            "startTime": format_iso_ms(self.came_ms),
        }


def of_sql(request: SqlRequest, now_ms: int, askers: int = 1) -> Asked:
    """A statement."""
    return Asked(str(request.context.get("sqlQueryId") or ""), True, request.query, now_ms, askers)


def of_native(query_id: str, body: object, now_ms: int, askers: int = 1) -> Asked:
    """A native query, as JSON."""
    return Asked(query_id, False, orjson.dumps(body, option=orjson.OPT_NON_STR_KEYS).decode(), now_ms, askers)


NOT_ASKED = Asked("", True, "", 0)
"""For what is only planned."""
