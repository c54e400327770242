"""Apache Kafka itself from its Maven jars: KRaft, one or three nodes, tuned to start fast."""

from __future__ import annotations

import base64
import shutil
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.servers.kfake import kafka_answers
from tests.servers.process import Server, cache_folder, free_ports

KAFKA_VERSION = "4.4.0"
_LOGGING = """rootLogger.level=warn
rootLogger.appenderRef.a.ref=A
appender.a.type=Console
appender.a.name=A
appender.a.layout.type=PatternLayout
appender.a.layout.pattern=%d %p %c{1} %m%n
"""


def kafka_home() -> Path:
    """The folder with the jars, the class archive and the formatted template of this version."""
    return cache_folder() / f"kafka-{KAFKA_VERSION}"


def short_id() -> str:
    """A random id in Kafka's spelling: 16 bytes in unpadded base64."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


class KafkaNode(Server):
    """One broker and controller of a `KafkaCluster`."""

    def __init__(self, home: Path, cluster: KafkaCluster, node: int, port: int, controller: int) -> None:
        super().__init__(home)
        self.cluster = cluster
        self.node = node
        self.port = port
        self.controller = controller
        self.proxied: tuple[int, int] | None = None
        self.data = home / "data"

    def command(self) -> Sequence[str | Path]:
        cluster = self.cluster
        archive = kafka_home() / "classes.jsa"
        use = "SharedArchiveFile" if archive.exists() else "ArchiveClassesAtExit"
        heap = [f"-Xms{cluster.heap}", f"-Xmx{cluster.heap}", "-XX:+UseSerialGC"]
        log = f"-Dlog4j2.configurationFile={self.home / 'log4j2.properties'}"
        start = ["-cp", cluster.classpath, "kafka.Kafka", str(self.home / "server.properties")]
        return ["java", *heap, *cluster.jvm, f"-XX:{use}={archive}", log, *start]

    def ready(self) -> bool:
        return kafka_answers(self.port)

    def prepare(self) -> None:
        """Writes the node's settings."""
        cluster = self.cluster
        inside = outside = f"PLAINTEXT://127.0.0.1:{self.port}"
        if self.proxied:  # a second listener, announced under the proxy's port
            inside += f",PROXIED://127.0.0.1:{self.proxied[0]}"
            outside += f",PROXIED://127.0.0.1:{self.proxied[1]}"
        copies = min(3, len(cluster.nodes))
        in_sync = max(1, copies - 1)
        names = "PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT"
        conf: dict[str, object] = {
            "process.roles": "broker,controller",
            "node.id": self.node,
            "controller.quorum.voters": cluster.voters,
            "listeners": f"{inside},CONTROLLER://127.0.0.1:{self.controller}",
            "advertised.listeners": outside,
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": names,
            "log.dirs": self.data,
            "num.network.threads": 2,
            "num.io.threads": 2,
            "num.partitions": 1,
            "auto.create.topics.enable": "false",
            "default.replication.factor": copies,
            "min.insync.replicas": in_sync,
            "offsets.topic.replication.factor": copies,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.num.partitions": 1,
            "transaction.state.log.min.isr": in_sync,
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": in_sync,
            "group.initial.rebalance.delay.ms": 0,
            # a broker killed with -9 is let back in only after this time
            "broker.session.timeout.ms": 1500,
            "broker.heartbeat.interval.ms": 300,
            "log.retention.hours": -1,
            "log.retention.check.interval.ms": 500,
            "log.initial.task.delay.ms": 500,
            "log.cleaner.backoff.ms": 500,
            "log.cleaner.threads": 1,
            # the default of 128 MB does not fit a small heap
            "log.cleaner.dedupe.buffer.size": 4194304,
            **cluster.extra,
        }
        text = "".join(f"{k}={v}\n" for k, v in conf.items())
        (self.home / "server.properties").write_text(text)
        (self.home / "log4j2.properties").write_text(_LOGGING)

    def format(self) -> None:
        """Copies a formatted folder: `kafka.tools.StorageTool format` takes 2 s of JVM."""
        if (self.data / "meta.properties").exists():
            return
        kept = kafka_home() / "formatted"
        if not kept.exists():
            tool = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp"]
            tool += [self.cluster.classpath, "kafka.tools.StorageTool", "format"]
            tool += ["-t", self.cluster.cluster_id, "-c", str(self.home / "server.properties")]
            out = subprocess.run(tool, capture_output=True, text=True, check=False)
            if out.returncode:
                raise RuntimeError(out.stdout + out.stderr)
            shutil.copytree(self.data, kept)
        # the metadata log's first snapshot must come along: without it the features of this release
        # (transactions v2, new groups) stay off, unlike in a cluster formatted by hand
        shutil.copytree(kept, self.data, dirs_exist_ok=True)
        (self.data / "meta.properties").write_text(
            f"version=1\nnode.id={self.node}\ncluster.id={self.cluster.cluster_id}\ndirectory.id={short_id()}\n"
        )


class KafkaCluster:
    """One or three nodes. ``proxy`` maps a node to the port that is announced for it."""

    def __init__(
        self,
        home: Path,
        nodes: int = 1,
        *,
        heap: str = "256m",
        jvm: Sequence[str] = ("-XX:TieredStopAtLevel=1",),
        proxy: Mapping[int, int] | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        self.heap = heap
        self.jvm = jvm
        self.extra = dict(extra or {})
        self.classpath = f"{kafka_home()}/libs/*"
        self.cluster_id = short_id()
        wanted = range(1, nodes + 1)
        ports = free_ports(3 * nodes)
        self.voters = ",".join(f"{n}@127.0.0.1:{ports[nodes + n - 1]}" for n in wanted)
        self.nodes = {n: KafkaNode(home / str(n), self, n, ports[n - 1], ports[nodes + n - 1]) for n in wanted}
        for n, announced in (proxy or {}).items():
            self.nodes[n].proxied = (ports[2 * nodes + n - 1], announced)
        self.bootstrap = ",".join(f"127.0.0.1:{n.port}" for n in self.nodes.values())

    def start(self) -> Self:
        """Starts every node and returns when all answer."""
        for node in self.nodes.values():
            node.prepare()
            node.format()
            if not node.alive:
                node.spawn()
        for node in self.nodes.values():
            node.start()
        return self

    def stop(self) -> None:
        """Stops all nodes at once: a lone last node waits for a quorum that is gone."""
        for node in self.nodes.values():
            if node.alive and node.proc is not None:
                node.proc.terminate()
        for node in self.nodes.values():
            node.stop(patience_s=10)

    def kill(self) -> None:
        """kill -9 of every node."""
        for node in self.nodes.values():
            node.kill()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            for node in self.nodes.values():  # those that did start must not outlive this
                if node.alive:
                    node.kill()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if kind:
            self.kill()
        else:
            self.stop()
