"""The names of all topics of a Kafka cluster, for those who read the topics that match a pattern."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from ingest.stream.properties import asking
from ingest.stream.refusals import meaning


class KafkaTopics:
    """Called, it lists them, in ``timeout_ms`` at most. For one thread; ``config`` as for `KafkaSupplier`."""

    def __init__(self, config: Mapping[str, str | int | bool], timeout_ms: int) -> None:
        self._config = dict(config)
        self._timeout_s = timeout_ms / 1_000
        self._admin: AdminClient | None = None

    def __call__(self) -> list[str]:
        """Raises the errors of `RecordSupplier`."""
        try:
            if self._admin is None:
                settings: dict[str, Any] = asking(self._config)
                self._admin = AdminClient(settings)
            return sorted(self._admin.list_topics(timeout=self._timeout_s).topics)
        except KafkaException as e:
            error = e.args[0]
            bootstrap = str(self._config.get("bootstrap.servers", ""))
            raise meaning(error.name(), error.str(), "all topics", bootstrap) from e
