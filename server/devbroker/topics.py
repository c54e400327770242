"""Requests about topics: Metadata, ApiVersions, creation, deletion, growth, FindCoordinator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from server.devbroker.store import PARTITIONS_MAX, Store, Topic, valid_name
from server.devbroker.wire import Reader, Writer

NODE = 1
CLUSTER = "siltstone-dev"
OK, OUT_OF_RANGE, UNKNOWN_TOPIC = 0, 1, 3
INVALID_TOPIC, UNSUPPORTED_VERSION, EXISTS, INVALID_PARTITIONS, INVALID_REQUEST, UNKNOWN_ID = 17, 35, 36, 37, 42, 100
_NO_OPERATIONS = -(1 << 31)
_NO_ID = bytes(16)


@dataclass(frozen=True, slots=True)
class Address:
    """What the broker tells clients to connect to."""

    host: str
    port: int


class TopicRequests:
    """Answers about topics; each method reads one request and returns the answer's body."""

    def __init__(self, store: Store, address: Address) -> None:
        self._store = store
        self._address = address

    def metadata(self, r: Reader, version: int) -> Writer:
        """Metadata 1 to 12. Topics are never made by asking for them."""
        asked = r.array_or_none(lambda: self._asked(r, version))
        found: list[tuple[int, str | None, Topic | None]]
        if asked is None:
            found = [(OK, topic.name, topic) for topic in self._store.topics.values()]
        else:
            found = [self._find(topic_id, name) for topic_id, name in asked]
        w = Writer(r.flexible)
        if version >= 3:
            w.i32(0)
        w.i32(1) if not w.flexible else w.varint(2)
        w.i32(NODE).text(self._address.host).i32(self._address.port).text(None).tags()
        if version >= 2:
            w.text(CLUSTER)
        w.i32(NODE)
        w.array(found, lambda each: self._described(w, version, *each))
        if 8 <= version <= 10:
            w.i32(_NO_OPERATIONS)
        return w.tags()

    @staticmethod
    def _asked(r: Reader, version: int) -> tuple[bytes, str | None]:
        topic_id = r.uuid() if version >= 10 else _NO_ID
        name = r.text_or_none() if version >= 10 else r.text()
        r.tags()
        return topic_id, name

    def _find(self, topic_id: bytes, name: str | None) -> tuple[int, str | None, Topic | None]:
        if name is None:
            topic = self._store.by_id(topic_id)
            return (UNKNOWN_ID, None, None) if topic is None else (OK, topic.name, topic)
        topic = self._store.topics.get(name)
        return (OK if topic else UNKNOWN_TOPIC if valid_name(name) else INVALID_TOPIC), name, topic

    def _described(self, w: Writer, version: int, error: int, name: str | None, topic: Topic | None) -> None:
        w.i16(error).text(name if version >= 12 else name or "")
        if version >= 10:
            w.raw(topic.topic_id if topic else _NO_ID)
        w.i8(0)
        w.array(range(len(topic.logs) if topic else 0), lambda index: self._partition(w, version, index))
        if version >= 8:
            w.i32(_NO_OPERATIONS)
        w.tags()

    @staticmethod
    def _partition(w: Writer, version: int, index: int) -> None:
        w.i16(OK).i32(index).i32(NODE)
        if version >= 7:
            w.i32(0)
        w.array([NODE], w.i32).array([NODE], w.i32)
        if version >= 5:
            w.array([], w.i32)
        w.tags()

    def create(self, r: Reader, version: int) -> Writer:
        """CreateTopics 0 to 4. Settings are taken and have no effect."""

        def topic() -> tuple[str, int]:
            name, partitions = r.text(), r.i32()
            r.i16()
            assigned = r.array(lambda: (r.i32(), r.array(r.i32)))
            r.array(lambda: (r.text(), r.text_or_none()))
            return name, len(assigned) or (1 if partitions == -1 else partitions)

        wanted = r.array(topic)
        r.i32()
        only_checked = bool(r.i8()) if version >= 1 else False
        answers = [(name, *self._create(name, partitions, only_checked)) for name, partitions in wanted]
        return _results(version, answers, throttle_from=2, text_from=1)

    def _create(self, name: str, partitions: int, only_checked: bool) -> tuple[int, str | None]:
        if not valid_name(name):
            return INVALID_TOPIC, "a name has 1 to 249 of the characters a-z A-Z 0-9 . _ -"
        if name in self._store.topics:
            return EXISTS, f"topic {name} exists"
        if not 0 < partitions <= PARTITIONS_MAX:
            return INVALID_PARTITIONS, f"1 to {PARTITIONS_MAX} partitions"
        if not only_checked:
            self._store.create(name, partitions)
        return OK, None

    def delete(self, r: Reader, version: int) -> Writer:
        """DeleteTopics 0 to 3."""
        answers: list[tuple[str, int, str | None]] = []
        for name in r.array(r.text):
            topic = self._store.topics.get(name)
            if topic is not None:
                self._store.delete(topic)
            answers.append((name, OK if topic else UNKNOWN_TOPIC, None))
        return _results(version, answers, throttle_from=1, text_from=99)

    def grow(self, r: Reader, version: int) -> Writer:
        """CreatePartitions 0 and 1."""

        def topic() -> tuple[str, int]:
            name, total = r.text(), r.i32()
            r.array_or_none(lambda: r.array(r.i32))
            return name, total

        wanted = r.array(topic)
        r.i32()
        only_checked = bool(r.i8())
        answers = [(name, *self._grow(name, total, only_checked)) for name, total in wanted]
        return _results(version, answers, throttle_from=0, text_from=0)

    def _grow(self, name: str, total: int, only_checked: bool) -> tuple[int, str | None]:
        topic = self._store.topics.get(name)
        if topic is None:
            return UNKNOWN_TOPIC, f"there is no topic {name}"
        if not len(topic.logs) < total <= PARTITIONS_MAX:
            return INVALID_PARTITIONS, f"it has {len(topic.logs)} partitions; at most {PARTITIONS_MAX}"
        if not only_checked:
            self._store.grow(topic, total)
        return OK, None

    def coordinator(self, r: Reader, version: int) -> Writer:
        """FindCoordinator 0 to 2: this node for groups, nobody for transactions."""
        r.text()
        kind = r.i8() if version >= 1 else 0
        w = Writer()
        if version >= 1:
            w.i32(0)
        if kind != 0:
            return w.i16(INVALID_REQUEST).text("this broker has no transactions").i32(-1).text("").i32(-1)
        w.i16(OK)
        if version >= 1:
            w.text(None)
        return w.i32(NODE).text(self._address.host).i32(self._address.port)


def _results(version: int, answers: list[tuple[str, int, str | None]], *, throttle_from: int, text_from: int) -> Writer:
    """Name, error and, where the version has it, a text for each topic."""
    w = Writer()
    if version >= throttle_from:
        w.i32(0)

    def result(answer: tuple[str, int, str | None]) -> None:
        w.text(answer[0]).i16(answer[1])
        if version >= text_from:
            w.text(answer[2])

    return w.array(answers, result)


def versions(apis: dict[int, tuple[int, int, Callable[..., object]]], version: int, error: int = OK) -> Writer:
    """ApiVersions 0 to 3."""
    w = Writer(version >= 3)
    w.i16(error)
    w.array(apis.items(), lambda api: w.i16(api[0]).i16(api[1][0]).i16(api[1][1]).tags())
    if version >= 1:
        w.i32(0)
    return w.tags()
