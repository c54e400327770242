"""The process that plans huge statements, one at a time; started by ``query.planning`` as ``python -m``.

It opens no file and no address, and ends when the other side of its socket is closed.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from query.errors import QueryError
from query.priority import step_back
from query.sql.catalogue import TableDef
from query.sql.planner import plan


class AskedCatalogue:
    """The catalogue of the process that waits for the plan."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def _asked(self, name: str, *arguments: object) -> Any:
        self._connection.send(("asked", name, arguments))
        return self._connection.recv()[1]

    def table_names(self) -> Sequence[str]:
        """Names of all tables."""
        found: Sequence[str] = self._asked("table_names")
        return found

    def table(self, name: str) -> TableDef | None:
        """A table by its exact name."""
        found: TableDef | None = self._asked("table", name)
        return found

    def lookup_names(self) -> Sequence[str]:
        """Names of all lookups."""
        found: Sequence[str] = self._asked("lookup_names")
        return found

    def has_lookup(self, name: str) -> bool:
        """Whether there is a lookup of that exact name."""
        return bool(self._asked("has_lookup", name))


def main() -> None:
    """Runs until the socket, whose descriptor is the first argument, is closed; the second is how nice it is."""
    step_back(int(sys.argv[2]))
    # A terminal's Ctrl-C goes to the whole group; the server decides when this process ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = Connection(int(sys.argv[1]))
    while True:
        try:
            request, now_ms = connection.recv()
            try:
                told: tuple[object, ...] = ("planned", plan(request, AskedCatalogue(connection), now_ms))
            except QueryError as error:
                told = ("failed", type(error).__name__, error.message, error.context)
            connection.send(told)
        except (EOFError, ConnectionError):
            return


if __name__ == "__main__":
    main()
