"""What clients' sessions have seen of tables, remembered by a front of several query nodes (PR-7).

A session is a short id that the client chooses and sends with every query, by header or cookie; ``new``
asks for one. An id that nothing is remembered of is no error: then each node keeps its own promise only.
"""

from __future__ import annotations

import re
import secrets
import threading
from collections import OrderedDict
from http.cookies import CookieError, SimpleCookie
from typing import Final

from query.session import TEXT_MAX, Seen, read, spell

SESSION_HEADER: Final = "X-Siltstone-Session"
SESSION_COOKIE: Final = "siltstone-session"
NEW: Final = "new"
BYTES_MAX: Final = 64 << 20
ENTRIES_MAX: Final = 100_000
_ID = re.compile(r"[A-Za-z0-9._~-]{1,64}")


class BadSession(Exception):
    """The id cannot be one; the message is for the client."""


def session_of(header: str | None, cookies: str | None) -> str | None:
    """The id a request names, the header before the cookie; None without one. ``new`` draws one.

    Raises:
        BadSession: the header holds something else. A cookie that is no id is somebody else's.
    """
    named = header
    if named is None and cookies:
        try:
            morsel = SimpleCookie(cookies).get(SESSION_COOKIE)
        except CookieError:
            return None
        named = None if morsel is None or not _ID.fullmatch(morsel.value) else morsel.value
    if named is None or _ID.fullmatch(named) is None:
        if named is None:
            return None
        raise BadSession(f"{SESSION_HEADER}: 1 to 64 letters, digits, '.', '_', '~' or '-' are an id (found {named!r})")
    return secrets.token_urlsafe(12) if named == NEW else named


class Sessions:
    """The last answers by (session, table), within a bound: what was not asked for the longest is forgotten
    first. In memory, for one front; safe from any thread."""

    def __init__(self, bytes_max: int = BYTES_MAX, entries_max: int = ENTRIES_MAX) -> None:
        self._bytes_max = bytes_max
        self._entries_max = entries_max
        self._lock = threading.Lock()
        self._entries: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._tables: dict[str, OrderedDict[str, None]] = {}  # of each session, the last answered last
        self._nodes: dict[str, str] = {}  # who answered each session last
        self._bytes = 0

    def last_node(self, session: str) -> str:
        """The address that answered the session last; empty when that is not known."""
        with self._lock:
            return self._nodes.get(session, "")

    def seen(self, session: str) -> str:
        """What a node must reach for this session, as a header's text; empty when nothing is known. Tables that
        would make it too long are left out, those answered long ago first."""
        texts: list[str] = []
        with self._lock:
            for table in reversed(self._tables.get(session, OrderedDict())):
                text = self._entries[session, table]
                if sum(map(len, texts)) + len(texts) + len(text) <= TEXT_MAX:
                    texts.append(text)
        return ",".join(texts)

    def remember(self, session: str, text: str, address: str) -> None:
        """Takes what the answer of the node at ``address`` showed; what others showed stays.
        A text that no node wrote is ignored."""
        try:
            shown = read_all(text)
        except ValueError:
            return
        with self._lock:
            for table, seen in shown.items():
                known = self._entries.get((session, table))
                joined = seen if known is None else read(known)[table].joined(seen)
                self._put(session, table, spell({table: joined}))
            if session in self._tables:
                self._nodes[session] = address

    def _put(self, session: str, table: str, text: str) -> None:
        self._remove(session, table)
        if not text:
            return  # more partitions than a header holds: the promise per node is left
        self._entries[session, table] = text
        self._tables.setdefault(session, OrderedDict())[table] = None
        self._bytes += len(text)
        while self._bytes > self._bytes_max or len(self._entries) > self._entries_max:
            self._remove(*next(iter(self._entries)))

    def _remove(self, session: str, table: str) -> None:
        text = self._entries.pop((session, table), None)
        if text is not None:
            self._bytes -= len(text)
            tables = self._tables[session]
            del tables[table]
            if not tables:
                del self._tables[session]
                self._nodes.pop(session, None)


def read_all(text: str) -> dict[str, Seen]:
    """The tables of a header's text: one or more that ``query.session.spell`` wrote, with commas between.

    Raises:
        ValueError: it is none.
    """
    found: dict[str, Seen] = {}
    for part in text.split(",") if text else ():
        found |= read(part)
    return found
