"""From a submitted spec to exactly published rows, with real task processes, through kills of everything."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ingest.clock import SystemClock
from ingest.offsets import OffsetMap
from ingest.protocol import PauseCommand, ResumeCommand
from ingest.worker.stopping import stop_tasks
from server.clients import HttpTaskChallenge, HttpTaskClient
from server.http_pool import HttpPool
from tests.integration.harness import PATIENCE_S, Cluster, click, eventually, spec
from tests.servers.kfake import Kfake
from tests.servers.topics import create_topic, produce

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster.under(tmp_path)
    yield found
    found.end()


def clicks(count: int) -> list[bytes]:
    return [click(n) for n in range(count)]


@pytest.mark.parametrize("replicas", [1, 2])
def test_records_are_published_by_checkpoints_of_300_rows(cluster: Cluster, kfake: Kfake, replicas: int) -> None:
    topic = create_topic(kfake.bootstrap, 3)
    node = cluster.start()
    for partition in range(3):
        produce(kfake.bootstrap, topic, clicks(1_000), partition=partition)
    node.overlord.submit(spec(kfake.bootstrap, topic, maxRowsPerSegment=300, replicas=replicas))
    eventually(lambda: cluster.positions() == OffsetMap(dict.fromkeys(range(3), 1_000)), PATIENCE_S, cluster.logs)
    node.overlord.suspend("clicks")
    eventually(lambda: cluster.rows_published() == 3_000, PATIENCE_S, cluster.logs)
    eventually(lambda: not cluster.attempts(), 30, lambda: node.overlord.status("clicks"))
    cluster.check_chain()
    assert all(row.rows_stored <= 300 for row in cluster.ledger())


def test_the_first_row_is_live_soon_after_the_spec(cluster: Cluster, kfake: Kfake) -> None:
    topic = create_topic(kfake.bootstrap, 2)
    produce(kfake.bootstrap, topic, clicks(10))
    node = cluster.start()
    started = time.monotonic()
    node.overlord.submit(spec(kfake.bootstrap, topic))
    eventually(cluster.attempts, 20, cluster.logs)

    def live_rows() -> int:
        answer = cluster.ask_live(cluster.attempts()[0], OffsetMap({0: 0, 1: 0}))
        return sum(chunk.rows for sequence in answer.sequences for chunk in sequence.chunks)

    eventually(lambda: live_rows() == 10, 20, cluster.logs)
    print(f"first row live after {time.monotonic() - started:.2f} s")


def test_a_pause_takes_milliseconds(cluster: Cluster, kfake: Kfake) -> None:
    topic = create_topic(kfake.bootstrap, 1)
    node = cluster.start()
    node.overlord.submit(spec(kfake.bootstrap, topic))
    eventually(cluster.attempts, 20, cluster.logs)
    attempt = cluster.attempts()[0]
    assert attempt.address is not None
    eventually(lambda: node.overlord.status("clicks")["payload"]["activeTasks"])
    client, took_ms = HttpTaskClient(HttpPool()), []
    generation = node.overlord.leading().generation
    for number in range(1_000, 1_021):
        started = time.monotonic()
        report = client.send(attempt.address, attempt.token, PauseCommand(generation, number, 5_000))
        took_ms.append((time.monotonic() - started) * 1_000)
        assert report is not None
        client.send(attempt.address, attempt.token, ResumeCommand(generation, number))
    print(f"pause: median {sorted(took_ms)[10]:.1f} ms, worst {max(took_ms):.1f} ms")
    # A pause that waited for a poll's or a heartbeat's time-out would take a second and more each time.
    assert sorted(took_ms)[10] < 1_000


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_task_killed_while_reading_is_replaced_exactly(cluster: Cluster, kfake: Kfake, replicas: int) -> None:
    topic = create_topic(kfake.bootstrap, 2)
    node = cluster.start()
    node.overlord.submit(spec(kfake.bootstrap, topic, maxRowsPerSegment=1_000, replicas=replicas))
    produce(kfake.bootstrap, topic, clicks(1_500))
    eventually(lambda: cluster.positions().get(0) == 1_500, 30, cluster.logs)
    victim = cluster.attempts()[0]
    os.kill(cluster.pid(victim), signal.SIGKILL)
    produce(kfake.bootstrap, topic, clicks(1_500), partition=1)
    eventually(lambda: victim.token not in {a.token for a in cluster.attempts()}, 30, cluster.logs)
    eventually(lambda: len(cluster.attempts()) == replicas, 30, cluster.logs)
    eventually(lambda: cluster.positions() == OffsetMap({0: 1_500, 1: 1_500}), 30, cluster.logs)
    node.overlord.suspend("clicks")
    eventually(lambda: cluster.rows_published() == 3_000, PATIENCE_S, cluster.logs)
    cluster.check_chain()


def test_a_task_killed_while_publishing_is_replaced_exactly(cluster: Cluster, kfake: Kfake) -> None:
    topic = create_topic(kfake.bootstrap, 1)
    node = cluster.start()
    node.overlord.submit(spec(kfake.bootstrap, topic, maxRowsPerSegment=200))
    eventually(cluster.attempts, 20, cluster.logs)
    killed = 0
    for turn in range(4):
        produce(kfake.bootstrap, topic, clicks(1_000))
        cluster.await_rows(turn * 1_000 + 100)
        for attempt in cluster.attempts():
            os.kill(cluster.pid(attempt), signal.SIGKILL)
            killed += 1
    assert killed >= 2
    eventually(lambda: cluster.positions().get(0) == 4_000, PATIENCE_S, cluster.logs)
    node.overlord.suspend("clicks")
    eventually(lambda: cluster.rows_published() == 4_000, PATIENCE_S, cluster.logs)
    cluster.check_chain()


def test_tasks_that_are_asked_to_end_leave_rows_that_the_next_start_restores(cluster: Cluster, kfake: Kfake) -> None:
    topic = create_topic(kfake.bootstrap, 1)
    node = cluster.start()
    node.overlord.submit(spec(kfake.bootstrap, topic))
    produce(kfake.bootstrap, topic, clicks(500))
    eventually(lambda: cluster.positions().get(0) == 500, 30, cluster.logs)
    (attempt,) = cluster.attempts()
    cluster.stop()
    pool = HttpPool()
    assert stop_tasks(cluster.root / "w1", HttpTaskChallenge(pool), 20, SystemClock()) == []
    pool.close()
    node = cluster.start()
    eventually(lambda: [a for a in cluster.attempts() if a.token != attempt.token], 30, cluster.logs)
    eventually(lambda: cluster.positions().get(0) == 500, 30, cluster.logs)
    assert "rows restored" in cluster.logs()
    assert "'0': 500" in cluster.logs(), "nothing is read again"
    produce(kfake.bootstrap, topic, clicks(500))
    eventually(lambda: cluster.positions().get(0) == 1_000, 30, cluster.logs)
    node.overlord.suspend("clicks")
    cluster.await_rows(1_000)
    cluster.check_chain()


def test_a_restarted_middle_manager_adopts_tasks_that_read_on_meanwhile(cluster: Cluster, kfake: Kfake) -> None:
    topic = create_topic(kfake.bootstrap, 1)
    node = cluster.start()
    node.overlord.submit(spec(kfake.bootstrap, topic, maxRowsPerSegment=1_000_000))
    produce(kfake.bootstrap, topic, clicks(100))
    eventually(lambda: cluster.positions().get(0) == 100, 30, cluster.logs)
    (attempt,) = cluster.attempts()
    pid = cluster.pid(attempt)
    cluster.stop()
    produce(kfake.bootstrap, topic, clicks(100))

    def read() -> int:
        answer = cluster.ask_live(attempt, OffsetMap({0: 0}))
        return sum(chunk.rows for sequence in answer.sequences for chunk in sequence.chunks)

    eventually(lambda: read() == 200, 20, cluster.logs)
    node = cluster.start()
    (running,) = node.middle_manager.running()
    assert (running.pid, running.token, running.adopted) == (pid, attempt.token, True)
    produce(kfake.bootstrap, topic, clicks(100))
    eventually(lambda: cluster.positions().get(0) == 300, 30, cluster.logs)
    assert [a.token for a in cluster.attempts()] == [attempt.token], "adopted, not replaced"
    node.overlord.suspend("clicks")
    eventually(lambda: cluster.rows_published() == 300, PATIENCE_S, cluster.logs)
    cluster.check_chain()


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_killed_server_is_followed_by_one_that_adopts(cluster: Cluster, kfake: Kfake, replicas: int) -> None:
    topic = create_topic(kfake.bootstrap, 2)
    cluster.start_process(spec(kfake.bootstrap, topic, maxRowsPerSegment=400, replicas=replicas))
    produce(kfake.bootstrap, topic, clicks(1_000))
    eventually(
        lambda: (cluster.root / "metadata.db").exists() and cluster.rows_published() >= 800, PATIENCE_S, cluster.logs
    )
    tokens = {attempt.token for attempt in cluster.attempts()}
    cluster.kill_process()
    produce(kfake.bootstrap, topic, clicks(1_000), partition=1)
    (cluster.root / "spec.json").unlink()
    cluster.start_process()
    eventually(lambda: cluster.rows_published() >= 1_600, PATIENCE_S, cluster.logs)
    assert {attempt.token for attempt in cluster.attempts()} == tokens, "adopted, not replaced"
    cluster.kill_process()
    node = cluster.start()
    eventually(lambda: cluster.positions() == OffsetMap({0: 1_000, 1: 1_000}), PATIENCE_S, cluster.logs)
    node.overlord.suspend("clicks")
    eventually(lambda: cluster.rows_published() == 2_000, PATIENCE_S, cluster.logs)
    cluster.check_chain()
