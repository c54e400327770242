"""Time from append to visible at 20,000 events a second, for one client that asks all the time."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from siltstone import ClientError
from tests.acceptance.service import Service
from tests.servers.kfake import Kfake
from tests.servers.topics import ONCE, create_topic, wait_for

pytestmark = pytest.mark.benchmark
RATE, TICK_S, SECONDS = 20_000, 0.01, 20
PARTITIONS = 2


class Steady:
    """Sends ``RATE`` events a second in ticks; ``sent_at`` says by when how many were handed to the client."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, **ONCE, "linger.ms": 2})
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.sent = 0
        self.sent_at: list[tuple[float, int]] = []

    def send(self, count: int) -> None:
        now_ms = int(time.time() * 1000)
        for number in range(self.sent, self.sent + count):
            event = {"ts": now_ms, "page": f"p{number % 1000}", "user": f"u{number % 5000}", "n": number}
            self._producer.produce(self._topic, json.dumps(event).encode(), partition=number % PARTITIONS)
        self.sent += count
        self._producer.poll(0)

    def __enter__(self) -> Steady:
        self._thread.start()
        return self

    def __exit__(self, *ended_by: Any) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.flush()

    def _run(self) -> None:
        due = time.perf_counter()
        while not self._stop.is_set():
            self.send(int(RATE * TICK_S))
            self.sent_at.append((time.perf_counter(), self.sent))
            due += TICK_S
            time.sleep(max(0.0, due - time.perf_counter()))


def spec(bootstrap: str, topic: str) -> dict[str, Any]:
    return {
        "type": "kafka",
        "spec": {
            "dataSchema": {
                "dataSource": "events",
                "timestampSpec": {"column": "ts", "format": "millis"},
                "dimensionsSpec": {"dimensions": ["page", "user", {"type": "long", "name": "n"}]},
                "granularitySpec": {"segmentGranularity": "HOUR", "queryGranularity": "NONE", "rollup": False},
            },
            "ioConfig": {
                "topic": topic,
                "consumerProperties": {"bootstrap.servers": bootstrap},
                "inputFormat": {"type": "json"},
                "useEarliestOffset": True,
            },
            # A checkpoint every few seconds, so that rollover and publish are in the figures.
            "tuningConfig": {"type": "kafka", "maxRowsPerSegment": 100_000},
        },
    }


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def test_append_to_visible(kfake: Kfake, tmp_path: Path) -> None:
    topic = create_topic(kfake.bootstrap, PARTITIONS)
    with Service(tmp_path) as service:
        service.start()
        stream = Steady(kfake.bootstrap, topic)
        stream.send(10)
        posted = time.perf_counter()
        service.client.submit(spec(kfake.bootstrap, topic))
        wait_for(lambda: count(service) == 10, what="the first rows")
        print(f"\nfirst row visible {time.perf_counter() - posted:.2f} s after its spec was posted")
        visible_ms, asked_ms = [], []
        with stream:
            at, end = 0, time.perf_counter() + SECONDS
            while time.perf_counter() < end:
                asked = time.perf_counter()
                seen = count(service)
                now = time.perf_counter()
                asked_ms.append((now - asked) * 1000)
                while at < len(stream.sent_at) and stream.sent_at[at][1] <= seen:
                    visible_ms.append((now - stream.sent_at[at][0]) * 1000)
                    at += 1
        wait_for(lambda: count(service) == stream.sent, what="the last rows")
    for name, values in (("append to visible", visible_ms), ("query", asked_ms)):
        shares = ", ".join(f"p{share * 100:g} {percentile(values, share):.0f}" for share in (0.5, 0.9, 0.99, 1.0))
        print(f"{name}, ms, {len(values)} at {RATE} events/s: {shares}")
    print("marks on a machine of one's own: append to visible p50 40, p99 150; first row 2 s")


def count(service: Service) -> int:
    try:
        return int(service.client.sql('SELECT COUNT(*) AS n FROM "events"')[0]["n"])
    except ClientError:
        return -1
