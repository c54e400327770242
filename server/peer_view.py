"""What other processes of the installation say of themselves: their settings, and the queries that run there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
import structlog

from ingest.metadata.records import NodeRecord
from server.config_secrets import masked
from server.directory import Directory
from server.forwarding import FORWARDED
from server.http_pool import HttpPool, Unanswered

_log = structlog.get_logger(__name__)
READ_S = 5.0
AT_ONCE = 8
Queries = Callable[[], list[dict[str, object]]]


class PeerView:
    """Asks all of them at once; who does not answer in five seconds is told with None, and named in the log. ``own``
    are this process's settings, secrets masked, and ``queries`` what runs here. Safe from any thread."""

    def __init__(
        self, directory: Directory, pool: HttpPool, own_address: str, own: Mapping[str, Any], database: str = ""
    ) -> None:
        self._directory = directory
        self._pool = pool
        self._own_address = own_address
        self._own = own
        self._database = database
        self.own_queries: Queries = list

    def properties(self) -> Iterator[tuple[NodeRecord, Mapping[str, Any] | None]]:
        """The settings of each process, as nested as in its file; None of one that does not answer."""
        nodes = [node for node in self._directory.nodes() if node.address]
        answers = self._all([(n.address, self._database_of(n)) for n in nodes], "/status/properties")
        for node, found in zip(nodes, answers, strict=True):
            settings = self._own if node.address == self._own_address else found
            yield node, settings if isinstance(settings, dict) else None

    def queries(self) -> Iterator[tuple[str, list[dict[str, Any]] | None]]:
        """The queries of each query node; None of one that does not answer."""
        addresses = self._directory.query_nodes()
        answers = self._all([(address, self._database) for address in addresses], "/druid/v2/sql/queries")
        for address, found in zip(addresses, answers, strict=True):
            if address == self._own_address:
                yield address, masked(self.own_queries())
            elif isinstance(found, dict) and isinstance(found.get("queries"), list):
                yield address, [query for query in found["queries"] if isinstance(query, dict)]
            else:
                yield address, None

    def _database_of(self, node: NodeRecord) -> str:
        """A middle manager alone knows of no database."""
        return self._database if {"overlord", "query", "api"} & set(node.roles) else ""

    def _all(self, asked: list[tuple[str, str]], path: str) -> list[Any]:
        """The JSON each says; None of who says none, and of this process, which need not ask itself."""
        if not any(address != self._own_address for address, _ in asked):
            return [None] * len(asked)
        with ThreadPoolExecutor(AT_ONCE, "peers") as calls:
            return list(calls.map(lambda each: self._asked(each[0], each[1], path), asked))

    def _asked(self, address: str, database: str, path: str) -> Any:
        if address == self._own_address:
            return None
        try:
            # Marked as forwarded: it speaks for itself and asks no other.
            headers = {FORWARDED.decode(): "1"}
            status, body = self._pool.request(
                "GET", f"http://{address}{path}", headers=headers, read_s=READ_S, database=database
            )
            if status == 200:
                return orjson.loads(body)
            trouble = f"status {status}"
        except (Unanswered, orjson.JSONDecodeError) as error:
            trouble = str(error)
        _log.warning("peer_silent", address=address, path=path, error=trouble)
        return None


def flattened(document: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str | None]]:
    """Each value by its path, ``query.workers``; lists as JSON, what is not set as null."""
    for name, value in document.items():
        if isinstance(value, dict):
            yield from flattened(value, f"{prefix}{name}.")
        elif value is None or isinstance(value, str):
            yield f"{prefix}{name}", value
        else:
            yield f"{prefix}{name}", orjson.dumps(value).decode()
