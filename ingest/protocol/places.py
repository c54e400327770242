"""Partitions of several topics under one supervisor: numbers that stand for (topic, partition) (pure).

A supervisor with a ``topicPattern`` reads a *stream of several topics*, named by the pattern between slashes, which no
topic can be called. Everything that counts offsets knows numbers only; a number is given to a topic's partition when
it is first seen, is stored, and means that partition for ever. What the stream calls its topic id is a JSON object of
the ids of its topics.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Source = tuple[str, int]
"""A topic and one of its partitions."""


@dataclass(frozen=True, slots=True)
class Place:
    """``number`` stands for this partition of this topic."""

    number: int
    topic: str
    partition: int

    @property
    def name(self) -> str:
        """As Druid writes it."""
        return f"{self.topic}:{self.partition}"


@dataclass(frozen=True, slots=True)
class ReadBefore:
    """How far a partition of a topic was committed in another stream; ``topic_id`` as it was there, if known."""

    offset: int
    topic_id: str | None

    def of(self, topic_id: str | None) -> bool:
        """Whether that incarnation may be this one."""
        return self.topic_id is None or topic_id is None or self.topic_id == topic_id


def sources(
    stream: str, topic_id: str | None, partitions: Iterable[int], places: Iterable[Place]
) -> Iterator[tuple[int, Source, str | None]]:
    """What each partition of a stream, of one topic or several, stands for, and the id of its topic."""
    if pattern_of(stream) is None:
        yield from ((p, (stream, p), topic_id) for p in partitions)
        return
    ids, known = split_ids(topic_id), {place.number: place for place in places}
    for partition in partitions:
        place = known[partition]
        yield partition, (place.topic, place.partition), ids.get(place.topic)


def read_by(
    stream: str, topic_id: str | None, committed: Mapping[int, int], places: Iterable[Place]
) -> Iterator[tuple[Source, ReadBefore]]:
    """What a stream has committed, by topic and partition."""
    for partition, source, id_ in sources(stream, topic_id, committed, places):
        yield source, ReadBefore(committed[partition], id_)


def furthest_read(found: Iterable[tuple[Source, ReadBefore]]) -> dict[Source, ReadBefore]:
    """The furthest of each."""
    merged: dict[Source, ReadBefore] = {}
    for source, read in found:
        if source not in merged or read.offset > merged[source].offset:
            merged[source] = read
    return merged


def stream_of_pattern(pattern: str) -> str:
    """The name of the stream of all topics that match."""
    return f"/{pattern}/"


def pattern_of(stream: str) -> str | None:
    """The pattern of a stream of several topics; None for a single topic."""
    return stream[1:-1] if stream.startswith("/") and len(stream) > 1 else None


def with_names(detail: Mapping[str, Any], places: Iterable[Place]) -> dict[str, Any]:
    """An audit row's detail with what the numbers of partitions in it stand for, in ``partitions`` by name."""
    spoken = set(_keys(detail))
    names = {place.name: place.number for place in places if str(place.number) in spoken}
    return {**detail, "partitions": names} if names else dict(detail)


def _keys(value: Any) -> Iterator[str]:
    for key, inner in value.items() if isinstance(value, Mapping) else ():
        yield str(key)
        yield from _keys(inner)


def join_ids(ids: Mapping[str, str]) -> str:
    """The topic id of a stream of several topics."""
    return json.dumps(dict(sorted(ids.items())), separators=(",", ":"))


def split_ids(topic_id: str | None) -> dict[str, str]:
    """The ids by topic; nothing for None and for a single topic's id."""
    return dict(json.loads(topic_id)) if topic_id is not None and topic_id.startswith("{") else {}


def numbered(known: Iterable[Place], found: Iterable[Source]) -> tuple[Place, ...]:
    """Every known place, and after them those found anew, under the next numbers."""
    places = list(known)
    taken = {(place.topic, place.partition) for place in places}
    following = max((place.number for place in places), default=-1) + 1
    for topic, partition in sorted(set(found) - taken):
        places.append(Place(following, topic, partition))
        following += 1
    return tuple(places)


def with_new_ids(stored: str | None, seen: Mapping[str, str]) -> str | None:
    """The stream's topic id when topics join: what is stored of a topic stays."""
    ids = split_ids(stored)
    return join_ids({**seen, **ids}) if seen or ids else stored


def with_moved_ids(
    stored: str | None, wanted: str | None, places: Sequence[Place], moves: Mapping[int, int]
) -> str | None:
    """The stream's topic id after a reset meant for ``wanted``: topics whose partitions move take the id in it."""
    if wanted is None or not places:
        return wanted
    moved = {place.topic for place in places if place.number in moves}
    fresh = {topic: id_ for topic, id_ in split_ids(wanted).items() if topic in moved}
    return join_ids({**split_ids(stored), **fresh})
