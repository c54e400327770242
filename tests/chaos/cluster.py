"""Real servers and split roles, every connection between them through a proxy that a fault may break."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingest.metadata.records import StreamOffsets
from ingest.metadata.sql import open_store
from ingest.task.directory import ProcessIdentity
from siltstone import Client, ClientError
from tests.acceptance.service import Service
from tests.servers.disks import SmallDisk
from tests.servers.kafka import KafkaCluster
from tests.servers.postgres import Postgres
from tests.servers.process import Server, free_ports, running
from tests.servers.proxy import Proxy
from tests.servers.seaweed import Seaweed
from tests.servers.topics import wait_for

SECRET = "of the chaos cluster"
LEASE_MS = 4_000
DISK_BYTES = 512 << 20


@dataclass(frozen=True, slots=True)
class Layout:
    """How an installation is made. ``small_disks`` (root only): middle managers and local deep storage have
    file systems of their own, which can be filled; ``local_storage``: segments in a folder instead of S3."""

    workers: int = 2
    query_nodes: int = 1
    brokers: int = 1
    local_storage: bool = False
    small_disks: bool = False


class Member(Service):
    """One process of the installation; it is ready when it answers, healthy or not."""

    def __init__(self, home: Path, settings: Mapping[str, Any] | None = None, **environment: str) -> None:
        super().__init__(home, settings, **environment)
        self._quick = Client(self.client.url, timeout_s=2.0)

    def ready(self) -> bool:
        with suppress(ClientError):
            return bool(self._quick.get("/status"))
        return False


class ChaosCluster:
    """Kafka, PostgreSQL and S3 with proxies, two overlords, middle managers, query nodes with the API.

    ``enter`` and every start of a process belong to the main thread.
    """

    def __init__(self, home: Path, layout: Layout | None = None) -> None:
        self.home = home
        self.layout = layout = layout or Layout()
        self.stack = ExitStack()
        self.kafka_ports = free_ports(layout.brokers)
        announced = dict(enumerate(self.kafka_ports, 1))
        self.kafka = KafkaCluster(home / "kafka", layout.brokers, proxy=announced)
        self.postgres = Postgres(durable=True)
        self.seaweed = None if layout.local_storage else Seaweed(home / "s3")
        self.overlords: list[Member] = []
        self.workers: list[Member] = []
        self.fronts: list[Member] = []
        self.proxies: dict[str, list[Proxy]] = {}
        self.disks: dict[str, SmallDisk] = {}
        self.topic_settings: dict[str, Any] = {}
        """Of the topic, for whoever has to make it again."""

    def __enter__(self) -> ChaosCluster:
        with ExitStack() as stack:
            stack.callback(lambda: shutil.rmtree(self.postgres.home, ignore_errors=True))
            stack.enter_context(self.kafka)
            stack.enter_context(self.postgres)
            if self.seaweed is not None:
                stack.enter_context(self.seaweed)
            if self.layout.small_disks:
                places = [f"worker{number}" for number in range(self.layout.workers)]
                for place in [*places, *(["storage"] if self.layout.local_storage else [])]:
                    path = self.home / place / ("data" if place in places else "")
                    self.disks[place] = stack.enter_context(SmallDisk(path, DISK_BYTES))
            stack.callback(self._end_everything)
            self._start_members()
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *ended_by: Any) -> None:
        self.stack.close()

    def _start_members(self) -> None:
        self.proxies["kafka"] = []
        for node, port in zip(self.kafka.nodes.values(), self.kafka_ports, strict=True):
            assert node.proxied is not None
            self.proxies["kafka"].append(Proxy(node.proxied[0], port))
        self.proxies["postgres"] = [Proxy(self.postgres.port) for _ in range(2 + self.layout.query_nodes)]
        urls = [f"postgresql+psycopg2://app@127.0.0.1:{p.port}/postgres" for p in self.proxies["postgres"]]
        place, keys = self._place()
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
        for number in range(self.layout.workers):
            settings = {**shared, **where, "roles": ["middle-manager"], "worker": {"capacity": 6}}
            self.workers.append(Member(self.home / f"worker{number}", settings, **keys))
        direct = {"overlord": {"urls": [each.client.url for each in self.overlords]}}
        for number in range(self.layout.query_nodes):
            settings = {
                **shared,
                **direct,
                "roles": ["query", "api"],
                "metadata": {"url": urls[2 + number]},
                "query": {"workers": 1, "threads": 1, "nice": 0},  # the witness asks on a machine that has no time
            }
            self.fronts.append(Member(self.home / f"front{number}", settings, **keys))
        self.overlords[0].cli("migrate", "--config", str(self.overlords[0].config))
        for member in self.members:
            member.spawn()
        for member in self.members:
            member.start()
        wait_for(self.front.client.leads, 60, "an overlord leads")

    def _place(self) -> tuple[dict[str, Any], dict[str, str]]:
        """The setting of deep storage, and what its users need in their environment."""
        if self.seaweed is None:
            return {"type": "local", "path": str(self.home / "storage")}, {}
        self.proxies["s3"] = [Proxy(self.seaweed.ports[3])]
        place = {
            "type": "s3",
            "bucket": self.seaweed.bucket,
            "prefix": "chaos",
            "endpoint_url": f"http://127.0.0.1:{self.proxies['s3'][0].port}",
            "region": "us-east-1",
            "upload_deadline_s": 20,
        }
        return place, {"AWS_ACCESS_KEY_ID": self.seaweed.key, "AWS_SECRET_ACCESS_KEY": self.seaweed.secret}

    @property
    def servers(self) -> list[Server]:
        """What is not ours."""
        return [*self.kafka.nodes.values(), self.postgres, *([self.seaweed] if self.seaweed else [])]

    def offsets(self, topic: str) -> StreamOffsets | None:
        """The committed offsets as the database has them now, asked past every proxy."""
        url = f"postgresql+psycopg2://app@127.0.0.1:{self.postgres.port}/postgres"
        with closing(open_store(url)) as store:
            return store.offsets("chaos", topic)

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
        return ",".join(f"127.0.0.1:{port}" for port in self.kafka_ports)

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

    def tell_stacks(self) -> None:
        """Has every process of ours write into its log what its threads are doing."""
        pids = [task.pid for task in self.tasks()]
        pids += [member.proc.pid for member in self.members if member.proc is not None and member.alive]
        for pid in pids:
            with suppress(OSError):
                os.kill(pid, signal.SIGUSR1)
        time.sleep(1.0)  # before they are killed; nothing says when the last line is out

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
