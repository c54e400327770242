"""The names of Kafka's consumer properties: what becomes of each, and our own defaults.

Tables only; `ingest.stream.properties` applies them.
"""

from __future__ import annotations

# Defaults of ours. A user's own value wins, except over the last group.
DEFAULTS: dict[str, str | int | bool] = {
    # A frozen broker is left after about 10 s instead of the client's 60 to 70.
    "socket.timeout.ms": 10_000,
    "topic.metadata.refresh.interval.ms": 2_000,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 1_000,
    # How long a topic may be unknown before that is said; 30 s by default.
    "topic.metadata.propagation.max.ms": 5_000,
    "socket.keepalive.enable": True,
    # Bounds the client's memory; throughput does not change from 4 MB to 1 GB.
    "queued.max.messages.kbytes": 32_768,
    # A fetch that waits at an idle broker delays newly assigned partitions by this much.
    "fetch.wait.max.ms": 100,
    "fetch.error.backoff.ms": 100,
    # By default a reader that emptied its queue waits up to a second for the next fetch.
    "fetch.queue.backoff.ms": 10,
    "check.crcs": True,
    "isolation.level": "read_committed",
    # The client wants one; assignment is explicit and nothing is committed under it.
    "group.id": "siltstone",
    "enable.metrics.push": False,
    "log_level": 4,
    # Never the user's: offsets are moved by commits and by people, ends of partitions are needed.
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "allow.auto.create.topics": False,
}

# What only a reader has, by the beginnings of the names.
READING = (
    "auto.offset",
    "check.crcs",
    "enable.auto",
    "enable.partition",
    "fetch.",
    "group.id",
    "isolation.",
    "max.partition.",
    "queued.",
)

# Java's name -> librdkafka's, where they differ.
RENAMED: dict[str, str] = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "metadata.max.age.ms": "topic.metadata.refresh.interval.ms",
    "request.timeout.ms": "socket.timeout.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "socket.connection.setup.timeout.ms": "socket.connection.setup.timeout.ms",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
}

# The same name on both sides, or librdkafka's own.
PASSED: frozenset[str] = frozenset(
    {
        "broker.address.family",
        "broker.address.ttl",
        "check.crcs",
        "client.dns.lookup",
        "client.id",
        "client.rack",
        "connections.max.idle.ms",
        "enable.ssl.certificate.verification",
        "fetch.error.backoff.ms",
        "fetch.max.bytes",
        "fetch.message.max.bytes",
        "fetch.min.bytes",
        "fetch.queue.backoff.ms",
        "fetch.wait.max.ms",
        "group.id",
        "isolation.level",
        "max.partition.fetch.bytes",
        "queued.max.messages.kbytes",
        "queued.min.messages",
        "receive.message.max.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.config",
        "sasl.oauthbearer.extensions",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.password",
        "sasl.username",
        "security.protocol",
        "socket.keepalive.enable",
        "socket.receive.buffer.bytes",
        "socket.send.buffer.bytes",
        "socket.timeout.ms",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.cipher.suites",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.key.pem",
        "topic.metadata.refresh.interval.ms",
    }
)

# librdkafka's name -> smallest and largest whole number it takes.
INTEGERS: dict[str, tuple[int, int]] = {
    "broker.address.ttl": (0, 86_400_000),
    "connections.max.idle.ms": (0, 2_147_483_647),
    "fetch.error.backoff.ms": (0, 300_000),
    "fetch.max.bytes": (0, 2_147_483_135),
    "fetch.message.max.bytes": (1, 1_000_000_000),
    "fetch.min.bytes": (1, 100_000_000),
    "fetch.queue.backoff.ms": (0, 300_000),
    "fetch.wait.max.ms": (0, 300_000),
    "max.partition.fetch.bytes": (1, 1_000_000_000),
    "queued.max.messages.kbytes": (1, 2_097_151),
    "queued.min.messages": (1, 10_000_000),
    "receive.message.max.bytes": (1_000, 2_147_483_647),
    "reconnect.backoff.max.ms": (0, 3_600_000),
    "reconnect.backoff.ms": (0, 3_600_000),
    "retry.backoff.max.ms": (1, 300_000),
    "retry.backoff.ms": (1, 300_000),
    "socket.connection.setup.timeout.ms": (1_000, 2_147_483_647),
    "socket.receive.buffer.bytes": (0, 100_000_000),
    "socket.send.buffer.bytes": (0, 100_000_000),
    "socket.timeout.ms": (10, 300_000),
    "topic.metadata.refresh.interval.ms": (10, 3_600_000),
}

# librdkafka's name -> the words it takes.
WORDS: dict[str, tuple[str, ...]] = {
    "broker.address.family": ("any", "v4", "v6"),
    "check.crcs": ("true", "false"),
    "client.dns.lookup": ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    "enable.ssl.certificate.verification": ("true", "false"),
    "isolation.level": ("read_committed", "read_uncommitted"),
    "sasl.mechanism": ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
    "sasl.oauthbearer.method": ("default", "oidc"),
    "security.protocol": ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    "socket.keepalive.enable": ("true", "false"),
    "ssl.endpoint.identification.algorithm": ("none", "https"),
}

# Name -> the values that need no word, and the warning for all others.
OVERRIDDEN: dict[str, tuple[tuple[str, ...], str]] = {
    "enable.auto.commit": (("false",), "is overridden with false: offsets are stored with the rows they stand for"),
    "auto.offset.reset": (
        ("none", "error"),
        "is overridden with none: offsets are moved by commits and by people; see useEarliestOffset",
    ),
    "allow.auto.create.topics": (("false",), "is overridden with false: reading creates no topic"),
    "enable.partition.eof": (("true",), "is overridden with true"),
    "enable.auto.offset.store": (("false",), "is overridden with false"),
}

_GROUP = "has no effect: partitions are assigned by the supervisor, not by a consumer group"
_JAVA = "has no effect here: it configures Java classes"

# Name -> the warning.
IGNORED: dict[str, str] = {
    "max.poll.records": "has no effect: batches follow the load",
    "auto.commit.interval.ms": "has no effect: nothing is committed to the broker",
    "default.api.timeout.ms": "has no effect: every request has its own limit",
    "exclude.internal.topics": "has no effect: the topic is named",
    "ssl.protocol": "has no effect: the highest TLS version both sides know is used",
    "ssl.enabled.protocols": "has no effect: the highest TLS version both sides know is used",
    "ssl.provider": _JAVA,
    "ssl.keymanager.algorithm": _JAVA,
    "ssl.trustmanager.algorithm": _JAVA,
    "ssl.secure.random.implementation": _JAVA,
    "security.providers": _JAVA,
    "sasl.login.refresh.window.factor": _JAVA,
    "auto.include.jmx.reporter": _JAVA,
    "key.deserializer": _JAVA,
    "value.deserializer": _JAVA,
    "metric.reporters": _JAVA,
    "metrics.num.samples": _JAVA,
    "metrics.recording.level": _JAVA,
    "metrics.sample.window.ms": _JAVA,
    "enable.metrics.push": "has no effect: the client's own metrics are not pushed to the broker",
    **{
        name: _GROUP
        for name in (
            "group.instance.id",
            "group.protocol",
            "group.remote.assignor",
            "heartbeat.interval.ms",
            "max.poll.interval.ms",
            "partition.assignment.strategy",
            "session.timeout.ms",
        )
    },
}

# Name -> the rule and the cure.
REFUSED: dict[str, tuple[str, str]] = {
    "interceptor.classes": ("names Java classes, which cannot run here", "remove it"),
    "sasl.login.callback.handler.class": (
        "names a Java class, which cannot run here",
        "use sasl.oauthbearer.method=oidc with client id, secret and token endpoint",
    ),
    "sasl.client.callback.handler.class": ("names a Java class, which cannot run here", "remove it"),
    "sasl.login.class": ("names a Java class, which cannot run here", "remove it"),
    "ssl.engine.factory.class": (
        "names a Java class, which cannot run here",
        "use PEM files, as ssl.ca.location",
    ),
    "sasl.kerberos.service.name": (
        "Kerberos is not built into the client",
        "use SCRAM-SHA-512, PLAIN or OAUTHBEARER, or a TLS client certificate",
    ),
}
