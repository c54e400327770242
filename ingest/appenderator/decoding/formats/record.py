"""Reads whole Kafka records: the value's documents, each with the record's key, headers, time and topic beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ingest.appenderator.decoding.formats.reader import ByRow, DocumentReader
from ingest.appenderator.decoding.unreadable import Unreadable
from ingest.spec.formats import KafkaFormat
from ingest.stream.supplier import Headers


class KafkaRecord(NamedTuple):
    """One record as ``KafkaDocuments`` reads it; ``timestamp_ms`` is -1 where the record has none, ``topic``
    None where it is the one that the spec names."""

    value: bytes | None
    key: bytes | None
    headers: Headers
    timestamp_ms: int
    topic: str | None = None


class KafkaDocuments(ByRow):
    """``kafka``. A record without a value is one document of what stands beside it, as in Druid."""

    def __init__(self, form: KafkaFormat, value: DocumentReader, key: DocumentReader | None) -> None:
        self._form = form
        self._value = value
        self._key = key

    def many(self, messages: Sequence[KafkaRecord]) -> tuple[list[dict[str, Any]], list[int]]:
        rows, bad = self._value.many([message.value for message in messages])
        refused = set(bad)
        documents = iter(rows)
        out: list[dict[str, Any]] = []
        rejected: list[int] = []
        for at, (message, key) in enumerate(zip(messages, self._keys(messages), strict=True)):
            document = None if at in refused else next(documents)
            if document is None or isinstance(key, Unreadable):
                rejected.append(at)
            else:
                out.append(self._beside(message, key) | document)
        return out, rejected

    def _keys(self, messages: Sequence[KafkaRecord]) -> list[Any]:
        """The key's value for each message: a list of one, an empty list, or why it cannot be read."""
        if self._key is None:
            return [[]] * len(messages)
        found, bad = self._key.many([message.key for message in messages])
        hard, documents = set(bad), iter(found)
        return [
            self._key_of(message.key) if at in hard else list(next(documents).values())[:1]
            for at, message in enumerate(messages)
        ]

    def _key_of(self, key: bytes | None) -> Any:
        if key is None or self._key is None:
            return []
        try:
            found = self._key.documents(key)
        except Unreadable as error:
            return Unreadable(f"key: {error}")
        if not found:
            return []
        # As in Druid: the first field of the first document.
        if isinstance(found[0], Unreadable):
            return Unreadable(f"key: {found[0]}")
        if not isinstance(found[0], dict):
            return Unreadable("key: not an object")
        return list(found[0].values())[:1]

    def _beside(self, message: KafkaRecord, key: list[Any]) -> dict[str, Any]:
        """A later header of the same name wins; a header wins over time, topic and key."""
        form = self._form
        found: dict[str, Any] = {form.key_column: key[0]} if key else {}
        found[form.topic_column] = form.topic if message.topic is None else message.topic
        found[form.timestamp_column] = None if message.timestamp_ms < 0 else message.timestamp_ms
        if form.header_encoding is not None and message.headers:
            for name, value in message.headers:
                text = None if value is None else value.decode(form.header_encoding, errors="replace")
                found[form.header_prefix + name] = text
        return found

    def documents(self, message: KafkaRecord) -> list[Any] | None:
        values = [{}] if message.value is None else self._value.documents(message.value)
        if values is None:
            return None
        key = self._key_of(message.key)
        if isinstance(key, Unreadable):
            raise key
        beside = self._beside(message, key)
        return [{**beside, **value} if isinstance(value, dict) else value for value in values]
