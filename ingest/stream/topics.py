"""The stream port over several topics: a supplier a topic, and numbers in the place of their partitions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import StreamError
from ingest.protocol import Place, Source, join_ids, split_ids
from ingest.stream.supplier import OffsetOutOfRange, Poll, RecordSupplier, StreamRefused, TopicMissing, TopicRecreated

Opener = Callable[[str, str | None], RecordSupplier]
"""Builds the supplier of one topic, which reads the incarnation of this id (None: the one it finds)."""
Naming = Callable[[Sequence[Source], Mapping[str, str]], Sequence[Place]]
"""Gives numbers to partitions that have none yet, durably, and answers with all; with the ids of the topics found."""

INTERNAL = "__"
"""Kafka's own topics begin so, and match no pattern."""


def matching(pattern: str, topics: Iterable[str]) -> list[str]:
    """Topics whose whole name matches, sorted; in time linear in their names, whatever the pattern.

    Raises:
        ValueError: the pattern is no regular expression that is known here.
    """
    names = sorted(name for name in topics if not name.startswith(INTERNAL))
    try:
        fits = pc.match_substring_regex(pa.array([*names, ""], pa.string()), f"^(?:{pattern})$").to_pylist()
    except pa.ArrowInvalid as error:
        raise ValueError(str(error)) from error
    return [name for name, fit in zip(names, fits, strict=False) if fit]


class NumberedTopics:
    """Which partition of which topic each number stands for."""

    def __init__(self, places: Iterable[Place]) -> None:
        self._places: dict[int, Place] = {}
        self._numbers: dict[Source, int] = {}
        self.learn(places)

    def learn(self, places: Iterable[Place]) -> None:
        """Takes further places in."""
        for place in places:
            self._places[place.number] = place
            self._numbers[place.topic, place.partition] = place.number

    def places(self) -> tuple[Place, ...]:
        """What is known."""
        return tuple(self._places.values())

    def partitions(self) -> list[int]:
        """The numbers that are known."""
        return sorted(self._places)

    def _by_topic(self, numbers: Iterable[int]) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for number in numbers:
            found.setdefault(self._places[number].topic, []).append(number)
        return found


class TopicsSupplier(NumberedTopics):
    """`RecordSupplier` of known ``places`` over suppliers of one topic. For one thread, but `topic_id` may be asked
    from another one.

    A supplier a topic exists while it is read, else one that only asks for the topic's id.
    """

    def __init__(self, places: Iterable[Place], topic_id: str | None, opener: Opener) -> None:
        super().__init__(places)
        self._ids = split_ids(topic_id)
        self._open = opener
        self._suppliers: dict[str, RecordSupplier] = {}
        self._asking: dict[str, RecordSupplier] = {}
        self._reading: dict[str, set[int]] = {}  # by topic the numbers that are assigned
        self._turn = 0
        self._unsaid: list[StreamError] = []  # said once only: kept until a poll finds nothing else

    # ------------------------------------------------------------ reading

    def assign(self, positions: Mapping[int, int]) -> None:
        wanted = self._by_topic(positions)
        for topic in set(self._suppliers) - set(wanted):
            self._suppliers.pop(topic).close()
        self._reading = {topic: set(numbers) for topic, numbers in wanted.items()}
        self._unsaid = []
        for topic, numbers in wanted.items():
            self._of(topic).assign({self._places[n].partition: positions[n] for n in numbers})

    def pause(self, partitions: Collection[int]) -> None:
        for topic, numbers in self._by_topic(partitions).items():
            self._of(topic).pause([self._places[n].partition for n in numbers])

    def resume(self, partitions: Collection[int]) -> None:
        for topic, numbers in self._by_topic(partitions).items():
            self._of(topic).resume([self._places[n].partition for n in numbers])

    def poll(self, max_records: int, timeout_ms: int) -> list[Poll]:
        """What every topic has at once, each in its turn first; if none has anything, waits for one of them.

        An error of one topic is raised where no other has anything, so that the others are read on.
        """
        topics = sorted(self._reading)
        if not topics:
            return []
        self._turn += 1
        topics = topics[self._turn % len(topics) :] + topics[: self._turn % len(topics)]
        found: list[Poll] = []
        troubles, self._unsaid = self._unsaid, []
        for topic in topics:
            room = max_records - sum(map(len, found))
            if room > 0:
                found += self._polled(topic, room, 0, troubles)
        if not found and not troubles and timeout_ms > 0:
            found = self._polled(topics[0], max_records, timeout_ms, troubles)
        self._unsaid = [trouble for trouble in troubles[0 if found else 1 :] if isinstance(trouble, OffsetOutOfRange)]
        if not found and troubles:
            raise troubles[0]
        return found

    def _polled(self, topic: str, room: int, timeout_ms: int, troubles: list[StreamError]) -> list[Poll]:
        try:
            polls = self._of(topic).poll(room, timeout_ms)
        except StreamError as error:
            if isinstance(error, OffsetOutOfRange):
                error.partition = self._numbers[topic, error.partition]
            troubles.append(error)
            return []
        return [
            replace(poll, partition=self._numbers[topic, poll.partition], source=(topic, poll.partition))
            for poll in polls
        ]

    def positions(self) -> dict[int, int]:
        return {
            self._numbers[topic, p]: offset
            for topic in self._reading
            for p, offset in self._of(topic).positions().items()
        }

    # ------------------------------------------------------------ offsets and topics

    def earliest(self, partitions: Collection[int]) -> dict[int, int]:
        return self._offsets(partitions, lambda supplier, mine: supplier.earliest(mine))

    def latest(self, partitions: Collection[int]) -> dict[int, int]:
        return self._offsets(partitions, lambda supplier, mine: supplier.latest(mine))

    def last_stable(self, partitions: Collection[int]) -> dict[int, int]:
        return self._offsets(partitions, lambda supplier, mine: supplier.last_stable(mine))

    def _offsets(
        self, partitions: Collection[int], ask: Callable[[RecordSupplier, list[int]], dict[int, int]]
    ) -> dict[int, int]:
        found: dict[int, int] = {}
        for topic, numbers in self._by_topic(partitions).items():
            answer = ask(self._of(topic), [self._places[n].partition for n in numbers])
            found |= {self._numbers[topic, p]: offset for p, offset in answer.items()}
        return found

    def topic_id(self) -> str | None:
        """The ids of the topics of these places: of those that are read as given, else as found.

        Raises:
            TopicRecreated: one of them is not the incarnation that is read.
        """
        found: dict[str, str] = {}
        for topic in sorted({place.topic for place in self._places.values()}):
            try:
                id_ = self._asker(topic).topic_id()
            except TopicMissing:
                continue  # what was read of it is what it was
            expected = self._ids.get(topic, id_)
            if id_ is not None and id_ != expected:
                raise TopicRecreated(topic, str(expected), id_)
            found |= {} if id_ is None else {topic: id_}
        return join_ids({**self._ids, **found})

    def close(self) -> None:
        suppliers = [*self._suppliers.values(), *self._asking.values()]
        self._suppliers, self._asking, self._reading = {}, {}, {}
        for supplier in suppliers:
            supplier.close()

    def _asker(self, topic: str) -> RecordSupplier:
        """Who reads the topic, or one that only asks: a supplier may be asked for the id from another thread."""
        supplier = self._suppliers.get(topic) or self._asking.get(topic)
        if supplier is None:
            supplier = self._asking[topic] = self._open(topic, self._ids.get(topic))
        return supplier

    def _of(self, topic: str) -> RecordSupplier:
        supplier = self._suppliers.get(topic)
        if supplier is None:
            supplier = self._suppliers[topic] = self._open(topic, self._ids.get(topic))
        return supplier


class Observing(NumberedTopics):
    """What a supervisor's supplier does beside: it finds the topics that match, and has their partitions numbered.

    ``topics`` lists the names of all that are there.
    """

    def __init__(self, pattern: str, topics: Callable[[], Collection[str]], naming: Naming) -> None:
        self._pattern = pattern
        self._list = topics
        self._name = naming
        self._found_ids: dict[str, str] = {}
        self._found: list[int] | None = None  # by `topic_id`, for whoever asks next

    def _look(self, topics: list[str]) -> tuple[list[Source], dict[str, str]]:
        """The partitions of those topics that are still there, and the ids that are known."""
        raise NotImplementedError

    def partitions(self) -> list[int]:
        """The numbers of all partitions that are there; those without one are given one first.

        Raises:
            TopicMissing: no topic matches.
        """
        if self._found is not None:
            found, self._found = self._found, None
            return found
        try:
            topics = matching(self._pattern, self._list())
        except ValueError as error:
            raise StreamRefused(self._pattern, f"topicPattern is not known here: {error}") from error
        if not topics:
            raise TopicMissing(self._pattern, "no topic's whole name matches spec.ioConfig.topicPattern")
        sources, ids = self._look(topics)
        if any(source not in self._numbers for source in sources):
            self.learn(self._name(sources, ids))
        self._found_ids = ids
        return sorted(self._numbers[source] for source in sources)

    def topic_id(self) -> str | None:
        """The ids of all topics that match, as they are now."""
        self._found = None
        self._found = self.partitions()
        return join_ids(self._found_ids)


class TopicsObserver(Observing, TopicsSupplier):
    """`Observing` over suppliers of one topic."""

    def __init__(self, pattern: str, topics: Callable[[], Collection[str]], naming: Naming, opener: Opener) -> None:
        TopicsSupplier.__init__(self, (), None, opener)
        Observing.__init__(self, pattern, topics, naming)

    def _look(self, topics: list[str]) -> tuple[list[Source], dict[str, str]]:
        sources: list[Source] = []
        ids: dict[str, str] = {}
        for topic in topics:
            try:
                partitions, id_ = self._of(topic).partitions(), self._of(topic).topic_id()
            except TopicMissing:
                continue  # deleted since it was listed
            sources += [(topic, p) for p in partitions]
            ids |= {} if id_ is None else {topic: id_}
        return sources, ids
