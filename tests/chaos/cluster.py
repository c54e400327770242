"""Real servers and split roles, every connection between them through a proxy that a fault may break."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from ingest.task.directory import ProcessIdentity
from siltstone import Client, ClientError
from tests.acceptance.service import Service
from tests.servers.kafka import KafkaCluster
from tests.servers.postgres import Postgres
from tests.servers.process import free_ports, running
from tests.servers.proxy import Proxy
from tests.servers.seaweed import Seaweed
from tests.servers.topics import wait_for

SECRET = "of the chaos cluster"
LEASE_MS = 4_000


class Member(Service):
    """One process of the installation; it is ready when it answers, healthy or not."""

    def ready(self) -> bool:
        with suppress(ClientError):
            return bool(self.client.get("/status"))
        return False


class ChaosCluster:
    """Kafka, PostgreSQL and S3 with a proxy each, two overlords, middle managers, query nodes with the API.

    ``enter`` and every start of a process belong to the main thread.
    """

    def __init__(self, home: Path, *, workers: int = 2, query_nodes: int = 1) -> None:
        self.home = home
        self.stack = ExitStack()
        self.kafka_proxy_port = free_ports(1)[0]
        self.kafka = KafkaCluster(home / "kafka", proxy={1: self.kafka_proxy_port})
        self.postgres = Postgres(durable=True)
        self.seaweed = Seaweed(home / "s3")
        self._workers_wanted = workers
        self._query_nodes_wanted = query_nodes
        self.overlords: list[Member] = []
        self.workers: list[Member] = []
        self.fronts: list[Member] = []
        self.proxies: dict[str, list[Proxy]] = {}

    def __enter__(self) -> ChaosCluster:
        with ExitStack() as stack:
            stack.callback(lambda: shutil.rmtree(self.postgres.home, ignore_errors=True))
            for server in (self.kafka, self.postgres, self.seaweed):
                stack.enter_context(server)
            stack.callback(self._end_everything)
            self._start_members()
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *ended_by: Any) -> None:
        self.stack.close()

    def _start_members(self) -> None:
        proxied = self.kafka.nodes[1].proxied
        assert proxied is not None
        self.proxies["kafka"] = [Proxy(proxied[0], self.kafka_proxy_port)]
        self.proxies["s3"] = [Proxy(self.seaweed.ports[3])]
        self.proxies["postgres"] = [Proxy(self.postgres.port) for _ in range(2 + self._query_nodes_wanted)]
        urls = [f"postgresql+psycopg2://app@127.0.0.1:{p.port}/postgres" for p in self.proxies["postgres"]]
        place = {
            "type": "s3",
            "bucket": self.seaweed.bucket,
            "prefix": "chaos",
            "endpoint_url": f"http://127.0.0.1:{self.proxies['s3'][0].port}",
            "region": "us-east-1",
            "upload_deadline_s": 20,
        }
        keys = {"AWS_ACCESS_KEY_ID": self.seaweed.key, "AWS_SECRET_ACCESS_KEY": self.seaweed.secret}
        shared = {"deep_storage": place, "secret": SECRET, "log": {"level": "info"}}
        for number in range(2):
            settings = {
                **shared,
                "roles": ["overlord"],
                "metadata": {"url": urls[number]},
                "overlord": {"lease_ms": LEASE_MS},
            }
            self.overlords.append(Member(self.home / f"overlord{number}", settings, **keys))
        self.proxies["overlord"] = [Proxy(each.port) for each in self.overlords]
        where = {"overlord": {"urls": [f"http://127.0.0.1:{p.port}" for p in self.proxies["overlord"]]}}
        for number in range(self._workers_wanted):
            settings = {**shared, **where, "roles": ["middle-manager"], "worker": {"capacity": 6}}
            self.workers.append(Member(self.home / f"worker{number}", settings, **keys))
        direct = {"overlord": {"urls": [each.client.url for each in self.overlords]}}
        for number in range(self._query_nodes_wanted):
            settings = {
                **shared,
                **direct,
                "roles": ["query", "api"],
                "metadata": {"url": urls[2 + number]},
                "query": {"workers": 1, "threads": 1},
            }
            self.fronts.append(Member(self.home / f"front{number}", settings, **keys))
        self.overlords[0].cli("migrate", "--config", str(self.overlords[0].config))
        for member in self.members:
            member.spawn()
        for member in self.members:
            member.start()
        wait_for(self.front.client.leads, 60, "an overlord leads")

    @property
    def members(self) -> list[Member]:
        return [*self.overlords, *self.workers, *self.fronts]

    @property
    def front(self) -> Member:
        """The API that operators use."""
        return self.fronts[0]

    @property
    def bootstrap(self) -> str:
        """Kafka as the tasks reach it, through the proxy."""
        return f"127.0.0.1:{self.kafka_proxy_port}"

    def tasks(self) -> list[ProcessIdentity]:
        """Tasks that run, of all middle managers, in the order of their directories."""
        return [identity for worker in self.workers for identity in worker.task_processes()]

    def leader(self) -> Member | None:
        """The overlord that says it leads."""
        for member in self.overlords:
            with suppress(ClientError):
                quick = Client(member.client.url, timeout_s=1.0)  # it may be frozen
                if member.alive and quick.get("/druid/indexer/v1/isLeader").get("leader") is True:
                    return member
        return None

    def _end_everything(self) -> None:
        for proxies in self.proxies.values():
            for proxy in proxies:
                proxy.heal()
        for member in self.members:
            if member.proc is not None and member.alive:
                member.kill()
        wait_for(self._kill_left, 20, "no process is left")
        for proxies in self.proxies.values():
            for proxy in proxies:
                proxy.close()

    def _kill_left(self) -> bool:
        """Kills what writes its output below our folders, known to a state directory or not; True when none is left."""
        roots = tuple(str(member.home) for member in self.members)
        found = False
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            with suppress(OSError):
                if os.readlink(entry / "fd" / "1").startswith(roots) and running(int(entry.name)):
                    found = True
                    os.kill(int(entry.name), signal.SIGKILL)
        return not found
