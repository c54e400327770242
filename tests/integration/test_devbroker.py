"""The development broker as a process, with real clients: the supplier and the quickstart's producer."""

from __future__ import annotations

import contextlib
import json
import threading
from pathlib import Path

import pytest

from ingest.stream.kafka import KafkaSupplier
from ingest.stream.properties import translate
from ingest.stream.supplier import BrokerUnreachable
from server.quickstart.edits import Edits
from server.quickstart.producer import EditProducer, Produced, ProducerFailed, ensure_topic
from tests.contract.streams import Gatherer, values
from tests.servers.devbroker import DevBroker
from tests.servers.process import free_ports
from tests.servers.topics import create_topic, produce, wait_for

pytestmark = pytest.mark.integration


def reader(bootstrap: str, topic: str) -> Gatherer:
    config = translate({"bootstrap.servers": bootstrap}).config
    return Gatherer(KafkaSupplier(topic, config, columns=("timestamps", "keys")))


def produced_while(producer: EditProducer, messages: int) -> Produced:
    """Runs the producer in this process until it has sent so many more."""
    stop = threading.Event()
    worker = threading.Thread(target=producer.run, args=(stop,), daemon=True)
    before = producer.snapshot().messages
    worker.start()
    try:
        wait_for(lambda: producer.snapshot().messages >= before + messages, 90, f"{messages} more messages")
    finally:
        stop.set()
        worker.join(20)
    assert not worker.is_alive()
    return producer.snapshot()


def events_in(bootstrap: str, topic: str) -> dict[int, list[int]]:
    """The numbers of all events in the topic, by partition, in order."""
    with reader(bootstrap, topic) as found:
        ends = found.supplier.latest(range(4))
        found.assign(dict.fromkeys(range(4), 0))
        found.read_to(ends)
        keys: dict[int, list[int]] = {p: [] for p in range(4)}
        for poll in found.polls:
            keys[poll.partition] += [int(key) for key in poll.keys or () if key is not None]
        return keys


def test_records_topic_ids_and_positions_survive_a_kill(tmp_path: Path) -> None:
    with DevBroker(tmp_path / "broker", ["--topic", "given=3"]) as broker:
        topic = create_topic(broker.bootstrap)
        produce(broker.bootstrap, topic, values("a", 500), config={"enable.idempotence": True})
        with reader(broker.bootstrap, topic) as found:
            topic_id = found.supplier.topic_id()
            found.assign({0: 0})
            found.read_to({0: 500})
            broker.kill()
            broker.start()
            produce(broker.bootstrap, topic, values("b", 10))
            while found.positions() != {0: 510}:
                with contextlib.suppress(BrokerUnreachable):
                    found.poll(100)
            assert found.supplier.topic_id() == topic_id
            assert [offset for offset, _ in found.records[0]] == list(range(510))
        with reader(broker.bootstrap, "given") as found:
            assert found.supplier.partitions() == [0, 1, 2]


def test_a_second_broker_on_the_folder_is_refused_in_one_line(tmp_path: Path) -> None:
    with DevBroker(tmp_path / "broker") as first:
        second = DevBroker(tmp_path / "broker")
        second.log = tmp_path / "second.log"
        with pytest.raises(RuntimeError, match="another broker runs on"):
            second.start()
        assert first.ready()


def test_its_banner_says_what_it_is_for(devbroker: DevBroker) -> None:
    assert "Single node" in devbroker.tail(50) and "for development only" in devbroker.tail(50)


def test_the_producer_counts_exactly_what_is_in_the_topic(devbroker: DevBroker, tmp_path: Path) -> None:
    done = produced_while(EditProducer(devbroker.bootstrap, "edits-a", tmp_path / "state.json", rate=5000), 3000)
    edits, found = Edits(1, 4), events_in(devbroker.bootstrap, "edits-a")
    assert sorted(n for numbers in found.values() for n in numbers) == list(range(done.messages))
    sent = [edits.event(n) for n in range(done.messages)]
    assert done.late == sum(edit.late_by_ms > 0 for edit in sent) > 0
    assert done.malformed == sum(edit.malformed for edit in sent)
    assert done.added == sum(edit.added for edit in sent)
    assert done.offsets == [len(found[p]) for p in range(4)]
    assert json.loads((tmp_path / "state.json").read_text())["messages"] == done.messages


def test_the_producer_goes_on_where_it_stopped_even_with_an_old_state(devbroker: DevBroker, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    first = produced_while(EditProducer(devbroker.bootstrap, "edits-b", state, rate=2000), 500)
    kept = state.read_text()
    second = produced_while(EditProducer(devbroker.bootstrap, "edits-b", state, rate=2000), first.messages + 300)
    assert second.messages > first.messages
    state.write_text(kept)  # as after kill -9 just before the state was saved
    third = produced_while(EditProducer(devbroker.bootstrap, "edits-b", state, rate=2000), second.messages + 100)
    state.unlink()
    last = produced_while(EditProducer(devbroker.bootstrap, "edits-b", state, rate=2000), third.messages + 100)
    found = events_in(devbroker.bootstrap, "edits-b")
    assert sorted(n for numbers in found.values() for n in numbers) == list(range(last.messages))
    edits = Edits(1, 4)
    assert last.added == sum(edits.event(n).added for n in range(last.messages))


def test_the_producer_rides_out_a_broker_that_is_killed(tmp_path: Path) -> None:
    with DevBroker(tmp_path / "broker") as broker:
        producer = EditProducer(broker.bootstrap, "edits", tmp_path / "state.json", rate=2000)
        stop = threading.Event()
        worker = threading.Thread(target=producer.run, args=(stop,), daemon=True)
        worker.start()
        wait_for(lambda: producer.snapshot().messages > 300, 90)
        broker.kill()
        broker.start()
        after = producer.snapshot().messages
        wait_for(lambda: producer.snapshot().messages > after + 1000, 90)
        stop.set()
        worker.join(20)
        found = events_in(broker.bootstrap, "edits")
        for numbers in found.values():
            assert numbers == sorted(set(numbers)), "an event was written twice or out of order"
        assert sorted(n for numbers in found.values() for n in numbers) == list(range(producer.snapshot().messages))


def test_a_topic_of_another_shape_and_a_missing_broker_are_named(devbroker: DevBroker, tmp_path: Path) -> None:
    topic = create_topic(devbroker.bootstrap, 2)
    with pytest.raises(ProducerFailed, match="has 2 partitions, not 4"):
        ensure_topic(devbroker.bootstrap, topic, 4)


def test_the_port_is_in_the_first_line(tmp_path: Path) -> None:
    [port] = free_ports(1)
    broker = DevBroker(tmp_path / "broker")
    broker.port, broker.bootstrap = port, f"127.0.0.1:{port}"
    with broker:
        lines = broker.log.read_text().splitlines()
        assert {"bootstrap": broker.bootstrap} in [json.loads(line) for line in lines if line.startswith("{")]
