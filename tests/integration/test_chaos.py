"""Random kills of tasks and of the whole server while records arrive; at the end every record is published once."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ingest.offsets import OffsetMap
from tests.integration.harness import PATIENCE_S, Cluster, click, eventually, spec
from tests.servers.kfake import Kfake
from tests.servers.topics import create_topic, produce

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(600)]

PARTITIONS = 3


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster.under(tmp_path)
    yield found
    found.end()


class Feed:
    """A thread that produces numbered clicks to every partition until it is stopped."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.counts = dict.fromkeys(range(PARTITIONS), 0)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(bootstrap, topic), daemon=True)
        self._thread.start()

    def _run(self, bootstrap: str, topic: str) -> None:
        while not self._stopping.wait(0.1):
            for partition in range(PARTITIONS):
                first = self.counts[partition]
                produce(bootstrap, topic, [click(n) for n in range(first, first + 40)], partition=partition)
                self.counts[partition] = first + 40

    def stop(self) -> OffsetMap:
        self._stopping.set()
        self._thread.join(30)
        return OffsetMap(self.counts)


@pytest.mark.parametrize(("replicas", "seed"), [(1, 1), (2, 2)])
def test_every_record_is_published_once_through_random_kills(
    cluster: Cluster, kfake: Kfake, replicas: int, seed: int
) -> None:
    dice = random.Random(int(os.environ.get("CHAOS_SEED", seed)))
    topic = create_topic(kfake.bootstrap, PARTITIONS)
    cluster.start_process(spec(kfake.bootstrap, topic, replicas=replicas, maxRowsPerSegment=500))
    eventually(lambda: (cluster.root / "metadata.db").exists() and cluster.attempts(), PATIENCE_S, cluster.logs)
    (cluster.root / "spec.json").unlink()
    feed = Feed(kfake.bootstrap, topic)
    end = time.monotonic() + float(os.environ.get("CHAOS_SECONDS", "45"))
    while time.monotonic() < end:
        time.sleep(dice.uniform(0.5, 3.0))
        if dice.random() < 0.3:
            cluster.kill_process()
            time.sleep(dice.uniform(0.0, 2.0))
            cluster.start_process()
        elif attempts := cluster.attempts():
            with suppress(ProcessLookupError, AssertionError):
                os.kill(cluster.pid(dice.choice(attempts)), dice.choice([signal.SIGKILL, signal.SIGTERM]))
    produced = feed.stop()
    cluster.kill_process()
    node = cluster.start()
    eventually(lambda: cluster.positions() == produced, 120, cluster.logs)
    node.overlord.suspend("clicks")
    eventually(lambda: cluster.rows_published() >= sum(produced.values()), PATIENCE_S, cluster.logs)
    assert cluster.rows_published() == sum(produced.values())
    cluster.check_chain()
