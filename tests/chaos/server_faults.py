"""Faults of the database, of deep storage, of small disks, and of what connects everything."""

from __future__ import annotations

from collections.abc import Callable

from tests.chaos.breaking import Broken, Hand
from tests.servers.process import Server
from tests.servers.proxy import Proxy

_BODY = b"<Error><Code>SlowDown</Code><Message>later</Message></Error>"
BUSY = b"\r\n".join(
    [
        b"HTTP/1.1 503 Service Unavailable",
        b"Content-Type: application/xml",
        b"Content-Length: %d" % len(_BODY),
        b"Connection: close",
        b"",
        _BODY,
    ]
)


class ServerFaults(Hand):
    """A server is down or its connections are bad; a disk of the cluster is full."""

    # -- servers

    def kill_postgres(self, busy: frozenset[str]) -> Broken | None:
        return self._server_down(self._cluster.postgres, "postgres", busy, Server.kill)

    def stop_postgres(self, busy: frozenset[str]) -> Broken | None:
        return self._server_down(self._cluster.postgres, "postgres", busy, lambda server: server.stop())

    def kill_s3(self, busy: frozenset[str]) -> Broken | None:
        seaweed = self._cluster.seaweed
        return None if seaweed is None else self._server_down(seaweed, "s3", busy, Server.kill)

    def _server_down(
        self, server: Server, name: str, busy: frozenset[str], how: Callable[[Server], None]
    ) -> Broken | None:
        if name in busy:
            return None
        how(server)
        return Broken(f"{name} goes down", frozenset({name}), server.spawn)

    # -- connections

    def cut_connections(self, busy: frozenset[str]) -> Broken | None:
        """Resets open connections and refuses new ones, of one proxy or of all before a server."""
        return self._connections(busy, "cut", Proxy.cut, Proxy.open)

    def hang_connections(self, busy: frozenset[str]) -> Broken | None:
        """Nothing passes any more, and nobody is told."""
        return self._connections(busy, "hang", Proxy.hang, Proxy.heal)

    def _connections(
        self, busy: frozenset[str], word: str, apply: Callable[[Proxy], None], undo: Callable[[Proxy], None]
    ) -> Broken | None:
        name = self._dice.choice(sorted(self._cluster.proxies))
        part = f"connections to {name}"
        if part in busy:
            return None
        proxies = list(self._cluster.proxies[name])
        if len(proxies) > 1 and self._dice.random() < 0.5:
            proxies = [self._dice.choice(proxies)]
        for proxy in proxies:
            apply(proxy)

        def mend() -> None:
            for proxy in proxies:
                undo(proxy)

        return Broken(f"{len(proxies)} {part} {word}", frozenset({part}), mend)

    # -- deep storage that is there, and bad

    def busy_s3(self, busy: frozenset[str]) -> Broken | None:
        """Every request is answered by 503."""
        return self._bad_s3(busy, "answers 503", lambda proxy: setattr(proxy, "answer", BUSY))

    def slow_s3(self, busy: frozenset[str]) -> Broken | None:
        """Half a second for each piece of 64 KiB or less."""
        return self._bad_s3(busy, "is slow", lambda proxy: setattr(proxy, "delay_s", 0.5))

    def short_s3(self, busy: frozenset[str]) -> Broken | None:
        """Each connection ends somewhere in the middle."""
        after = self._dice.choice([100, 1_000, 10_000, 40_000])
        return self._bad_s3(busy, f"ends after {after} bytes", lambda proxy: setattr(proxy, "end_after", after))

    def _bad_s3(self, busy: frozenset[str], word: str, apply: Callable[[Proxy], None]) -> Broken | None:
        part = "connections to s3"
        if part in busy or "s3" not in self._cluster.proxies:
            return None
        [proxy] = self._cluster.proxies["s3"]
        apply(proxy)
        return Broken(f"s3 {word}", frozenset({part}), proxy.heal)

    # -- disks

    def fill_small_disk(self, busy: frozenset[str]) -> Broken | None:
        """The file system of a middle manager with all its tasks, or of deep storage, has not a byte left."""
        whole = sorted(name for name in self._cluster.disks if f"file system of {name}" not in busy)
        if not whole:
            return None
        name = self._dice.choice(whole)
        disk = self._cluster.disks[name]
        disk.fill()
        return Broken(f"the file system of {name} is full", frozenset({f"file system of {name}"}), disk.clear)
