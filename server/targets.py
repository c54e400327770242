"""Decides which other process must answer a request of this front: the leader, or one of several query nodes."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from server.api.seen import SEEN_HEADER
from server.forwarding import Headers, Refused, Target, Targets
from server.parts import Parts
from server.query_routing import Running, known_tables, ranked, tables_named
from server.sessions import SESSION_COOKIE, SESSION_HEADER, BadSession, Sessions, session_of

INDEXER: Final = "/druid/indexer/"
QUERIES: Final = "/druid/v2"
TOLD_HERE: Final = QUERIES + "/datasources"
"""Told from the metadata by every process."""
AVATICA: Final = QUERIES + "/sql/avatica"
MARKS: Final = ("/markUnused", "/markUsed")
_CONNECTION = re.compile(rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_SEEN = SEEN_HEADER.lower().encode()
_SESSION = SESSION_HEADER.lower().encode()


def _is_leaders(path: str) -> bool:
    return path == "/siltstone/v1/plan" or path.startswith("/siltstone/v1/quarantine/") and path.endswith("/replay")


class ProcessTargets(Targets):
    """The targets of one process."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._sessions = Sessions()
        self._running = Running()

    def concerns(self, path: str) -> bool:
        parts = self._parts
        if path.startswith(INDEXER) or path.endswith(MARKS) or _is_leaders(path):
            return parts.overlord is None or not parts.overlord.is_leading
        return parts.queries is None and path.startswith(QUERIES) and not path.startswith(TOLD_HERE)

    def find(self, method: str, path: str, headers: Headers, body: bytes) -> Target | None:
        parts = self._parts
        if path.startswith(QUERIES) and not path.endswith(MARKS):
            return self._query(method, path, headers, body)
        others = [address for address in parts.directory.leaders() if address != parts.address]
        # With nobody to ask, an overlord says by itself that it does not lead.
        return Target(others) if others or parts.overlord is None else None

    def is_alive(self, address: str) -> bool:
        # Late is not gone: a busy node would have its longest queries taken away, again and again.
        live = {node.address for node in self._parts.directory.nodes()}
        # When all are gone it is the database, or this process, that is slow.
        return not live or address in live

    def _query(self, method: str, path: str, headers: Headers, body: bytes) -> Target:
        directory = self._parts.directory
        nodes = [node for node in directory.nodes() if "query" in node.roles and node.address]
        if method == "DELETE":
            # Where it runs is not known here: an id may have come by another front.
            return Target([node.address for node in nodes], repeats=True, to_all=True)
        if path.startswith(AVATICA):
            late = directory.late()
            prompt = [node.address for node in nodes if node.node not in late]
            return Target(sorted(prompt or [node.address for node in nodes], key=lambda each: _drawn(each, body))[:1])
        session = _session(headers)
        last = "" if session is None else self._sessions.last_node(session)
        tables = tables_named(body, known_tables(nodes))
        found = ranked(nodes, directory.late(), tables, self._running.by_address, last)
        target = Target(
            [node.address for node in found],
            repeats=True,
            drop=frozenset({_SEEN}),
            begin=self._running.begin,
            end=self._running.end,
        )
        return target if session is None else self._in_session(target, session)

    def _in_session(self, target: Target, session: str) -> Target:
        def answered(address: str, headers: Headers) -> Headers:
            told = dict(headers)
            self._sessions.remember(session, told.get(_SEEN, b"").decode("latin-1"), address)
            cookie = f"{SESSION_COOKIE}={session}; Path={QUERIES}; HttpOnly; SameSite=Lax"
            # The first one empty: what a node says of offsets is for this front only.
            return [(_SEEN, b""), (_SESSION, session.encode()), (b"set-cookie", cookie.encode())]

        return Target(
            target.addresses,
            repeats=True,
            headers=lambda: [(_SEEN, self._sessions.seen(session).encode())],
            drop=target.drop,
            begin=target.begin,
            end=target.end,
            answered=answered,
        )


def _session(headers: Headers) -> str | None:
    """Raises Refused."""
    told = {name.lower(): value.decode("latin-1") for name, value in headers}
    try:
        return session_of(told.get(_SESSION), told.get(b"cookie"))
    except BadSession as error:
        raise Refused(str(error)) from error


def _drawn(address: str, body: bytes) -> bytes:
    """A connection of JDBC lives in one node: its id, an UUID in JSON and in protobuf alike, chooses which."""
    named = _CONNECTION.search(body)
    connection = named[0].lower() if named else b""
    return hashlib.blake2b(connection + b"\0" + address.encode(), digest_size=8).digest()
