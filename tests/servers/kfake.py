"""The Kafka look-alike in Go (`kfake/`): starts in 30 ms, keeps its data, has a fault API."""

from __future__ import annotations

import hashlib
import socket
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from tests.servers.process import Server, cache_folder, free_ports

SOURCE = Path(__file__).parent / "kfake"


def kfake_binary() -> Path:
    """Where the built binary lies; its name changes with its sources, so a stale one is not used."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum", "main.go"):
        digest.update((SOURCE / name).read_bytes())
    return cache_folder() / f"kfake-{digest.hexdigest()[:12]}"


def kafka_answers(port: int) -> bool:
    """Whether an ApiVersions request is answered: the broker's own protocol, without a client."""
    body = (18).to_bytes(2, "big") + (0).to_bytes(2, "big") + (7).to_bytes(4, "big") + b"\x00\x01p"
    try:
        with socket.create_connection(("127.0.0.1", port), 0.5) as s:
            s.settimeout(1.0)
            s.sendall(len(body).to_bytes(4, "big") + body)
            return s.recv(8)[4:8] == (7).to_bytes(4, "big")
    except OSError:
        return False


class Kfake(Server):
    """One process with one or more brokers, a schema registry and the fault API of `main.go`."""

    def __init__(
        self,
        home: Path,
        brokers: int = 1,
        *,
        durable: bool = True,
        advertise: Sequence[int] = (),
        flags: Sequence[str] = (),
    ) -> None:
        super().__init__(home)
        self.ports = free_ports(brokers)
        self.durable = durable
        self.advertise = advertise
        self.flags = list(flags)
        self.control_port, self.registry_port = free_ports(2)
        self.registry = f"http://127.0.0.1:{self.registry_port}"
        self.bootstrap = ",".join(f"127.0.0.1:{p}" for p in (advertise or self.ports))

    def command(self) -> Sequence[str | Path]:
        out: list[str | Path] = [kfake_binary(), "-ports", ",".join(map(str, self.ports))]
        out += ["-control", str(self.control_port), "-registry", str(self.registry_port)]
        if self.durable:
            out += ["-dir", self.home / "data"]
        if self.advertise:
            out += ["-advertise", ",".join(map(str, self.advertise))]
        return out + self.flags

    def ready(self) -> bool:
        return all(kafka_answers(p) for p in self.ports)

    def control(self, path: str, **query: str | int) -> str:
        """Calls the fault API (`main.go` lists the paths) and returns the answer's body."""
        url = f"http://127.0.0.1:{self.control_port}{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=10) as r:
            return str(r.read().decode())
