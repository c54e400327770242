"""Kept-alive HTTP connections to other processes of the service, with short patience."""

from __future__ import annotations

from collections.abc import Mapping

import urllib3
from urllib3.exceptions import HTTPError

CONNECT_S = 0.5
"""Processes are near and listen from their start: who does not accept at once is not there."""


class Unanswered(Exception):
    """No answer came. ``sent`` is False when the request certainly did not reach anybody."""

    def __init__(self, message: str, *, sent: bool) -> None:
        self.sent = sent
        super().__init__(message)


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
    ) -> tuple[int, bytes]:
        """Status and body of the answer.

        A kept connection that the peer closed meanwhile is replaced once: such a request was not
        taken. Raises Unanswered.
        """
        timeout = urllib3.Timeout(connect=CONNECT_S, read=read_s)
        for fresh in (False, True):
            try:
                reply = self._pool.request(
                    method, url, body=body, headers=headers, timeout=timeout, retries=False, redirect=False
                )
            except urllib3.exceptions.NewConnectionError as error:
                raise Unanswered(f"{url}: {error}", sent=False) from error
            except urllib3.exceptions.ConnectTimeoutError as error:
                raise Unanswered(f"{url}: {error}", sent=False) from error
            except urllib3.exceptions.ProtocolError as error:
                if fresh:
                    raise Unanswered(f"{url}: {error}", sent=True) from error
            except HTTPError as error:
                raise Unanswered(f"{url}: {error}", sent=True) from error
            else:
                return reply.status, reply.data
        raise AssertionError("unreachable")

    def close(self) -> None:
        self._pool.clear()
