"""What the leading overlord says of its supervisors, for processes that do not lead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import structlog

from server.directory import Directory
from server.forwarding import FORWARDED
from server.http_pool import HttpPool, Unanswered

_log = structlog.get_logger(__name__)
READ_S = 5.0
PATH = "/druid/indexer/v1/supervisor?state"


class LeaderView:
    """Asks whoever leads by the store, then the configured overlords. Safe from any thread."""

    def __init__(self, directory: Directory, pool: HttpPool, own_address: str, database: str = "") -> None:
        self._directory = directory
        self._pool = pool
        self._own = own_address
        self._database = database

    def supervisors(self) -> dict[str, Mapping[str, Any]]:
        """State and health by supervisor, in one call; empty when nobody who leads answers."""
        for address in self._directory.leaders():
            if address == self._own:
                continue
            try:
                # Marked as forwarded: who does not lead says so instead of asking yet another.
                headers = {FORWARDED.decode(): "1"}
                status, body = self._pool.request(
                    "GET", f"http://{address}{PATH}", headers=headers, read_s=READ_S, database=self._database
                )
                listed = orjson.loads(body) if status == 200 else None
            except (Unanswered, orjson.JSONDecodeError) as error:
                _log.warning("leader_silent", address=address, error=str(error))
                continue
            if isinstance(listed, list):
                return {str(each["id"]): each for each in listed if isinstance(each, dict) and "id" in each}
        return {}
