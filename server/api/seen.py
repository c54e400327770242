"""The header by which a front tells a query node what a session saw, and the node tells back what it shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fastapi import Request

from query.errors import InvalidQuery
from query.session import Seen, spell
from server.sessions import read_all

SEEN_HEADER: Final = "X-Siltstone-Seen"


def seen_of(request: Request) -> dict[str, Seen] | None:
    """What the answer must reach, by table; None when nobody remembers what it will show.

    Raises:
        InvalidQuery: the header holds something else.
    """
    text = request.headers.get(SEEN_HEADER)
    if text is None:
        return None
    try:
        return read_all(text)
    except ValueError as error:
        raise InvalidQuery(f"{SEEN_HEADER}: is written by a front, not by clients ({error})") from error


def add_seen(headers: dict[str, str], asked: Mapping[str, Seen] | None, shown: Mapping[str, Seen]) -> None:
    """Tells what an answer shows, if somebody remembers it."""
    if asked is not None:
        headers[SEEN_HEADER] = spell(shown)
