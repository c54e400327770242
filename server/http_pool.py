"""Kept-alive HTTP connections to other processes of the service, with short patience."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import urllib3
from urllib3.exceptions import HTTPError

from siltstone.values import reason_of

DATABASE_HEADER: Final = "X-Siltstone-Database"
"""Of a request: whose service it is for. Of an answer: whose service gave it."""
CONNECT_S = 0.5
"""Processes are near and listen from their start: who does not accept at once is not there."""


class Unanswered(Exception):
    """No answer came. ``sent`` is False when the request certainly did not reach anybody."""

    def __init__(self, message: str, *, sent: bool) -> None:
        self.sent = sent
        super().__init__(message)


class Stranger(Unanswered):
    """Somebody answered who is not of the caller's installation."""


class HttpPool:
    """A pool for many hosts; safe from any thread. Redirects and retries are the caller's."""

    def __init__(self, connections_per_host: int = 32, hosts: int = 256) -> None:
        self._pool = urllib3.PoolManager(
            num_pools=hosts,
            maxsize=connections_per_host,
            block=False,
            retries=False,
            headers={"Connection": "keep-alive"},
        )

    def request(
        self,
        method: str,
        url: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        read_s: float,
        database: str = "",
    ) -> tuple[int, bytes]:
        """Status and body of the answer. Where ``database`` is named, that of its service: who answers for another
        one, or for none, is a Stranger.

        A kept connection that the peer closed meanwhile is replaced once: such a request was not
        taken. Raises Unanswered.
        """
        timeout = urllib3.Timeout(connect=CONNECT_S, read=read_s)
        if database:
            headers = {**(headers or {}), DATABASE_HEADER: database}
        for fresh in (False, True):
            try:
                reply = self._pool.request(
                    method, url, body=body, headers=headers, timeout=timeout, retries=False, redirect=False
                )
            except (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError) as error:
                raise Unanswered(f"no answer from {url}: {reason_of(error)}", sent=False) from error
            except urllib3.exceptions.ProtocolError as error:
                if fresh:
                    raise Unanswered(f"no answer from {url}: {reason_of(error)}", sent=True) from error
            except HTTPError as error:
                raise Unanswered(f"no answer from {url}: {reason_of(error)}", sent=True) from error
            else:
                named = reply.headers.get(DATABASE_HEADER)
                strange = stranger(database, reply.status, named)
                if strange is not None:  # one that names another database has certainly not acted on ours
                    raise Stranger(f"{url}: {strange}", sent=named is None)
                return reply.status, reply.data
        raise AssertionError("unreachable")

    def close(self) -> None:
        self._pool.clear()


def stranger(database: str, status: int, named: str | None) -> str | None:
    """Why an answer to a request for ``database`` is not its service's; None when it is. One that says 503 and no
    name may be ours that starts or stops: it has done nothing, whoever it is."""
    if not database or named == database or (named is None and status == 503):
        return None
    if named is None:
        return f"another service listens there (status {status}, and it does not say whose it is)"
    return f"a service of another metadata database ({named}) listens there"
