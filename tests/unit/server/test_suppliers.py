"""How soon a supervisor's look at its stream says that nobody answers."""

from __future__ import annotations

import socket
import time

import pytest

from ingest.stream.supplier import BrokerUnreachable
from ingest.supervisor.config import SupervisorConfig
from ingest.supervisor.discovery import RETRY_S, SEEN_EVERY_S
from server.suppliers import LOOK_MS, kafka_observer
from tests.in_process import spec


def test_a_broker_that_never_answers_is_unhealthy_within_about_ten_seconds() -> None:
    looks = SupervisorConfig("s", "t", "topic", 1).unhealthiness_threshold
    pauses_s = sum(RETRY_S[: looks - 1])
    assert looks * LOOK_MS / 1_000 + pauses_s <= 10
    assert SEEN_EVERY_S + looks * LOOK_MS / 1_000 + pauses_s <= 12, "one that answered until now"


def test_a_look_at_a_broker_that_takes_connections_and_says_nothing_ends_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        observer = kafka_observer(spec(broker=f"127.0.0.1:{silent.getsockname()[1]}"), lambda *_: ())
        began = time.monotonic()
        with pytest.raises(BrokerUnreachable):
            observer.topic_id()
        observer.close()
    assert time.monotonic() - began < 2 * LOOK_MS / 1_000
