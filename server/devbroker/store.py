"""What the broker keeps in its folder: topics with their ids and logs, committed offsets, producer ids.

broker.json               next producer id
offsets.jsonl             committed offsets, one change a line, rewritten at start
topics/NAME/topic.json    topic id, starts of the logs
topics/NAME/0.log ...     record batches as they came
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from server.devbroker.log import PartitionLog

_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_PRODUCER_BLOCK = 1000
# Beyond these a request is a mistake, and each partition is an open file.
PARTITIONS_MAX = 1000


class FolderInUse(Exception):
    """Another broker runs on the folder."""


def valid_name(topic: str) -> bool:
    """Kafka's rule for topic names."""
    return _NAME.fullmatch(topic) is not None and topic not in (".", "..")


@dataclass(slots=True)
class Topic:
    """One topic: its id (16 bytes) and its logs by partition."""

    name: str
    topic_id: bytes
    folder: Path
    logs: list[PartitionLog] = field(default_factory=list)


def _write(path: Path, value: object) -> None:
    fresh = path.with_suffix(".new")
    with fresh.open("w") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


class Store:
    """Everything durable. For the event loop's thread only."""

    def __init__(self, folder: Path, *, sync: bool = False, retention_bytes: int = 1 << 30) -> None:
        """Opens or makes the folder.

        Raises:
            FolderInUse: another broker has it.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._sync = sync
        self._retention_bytes = retention_bytes
        self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise FolderInUse(f"another broker runs on {folder}; stop it or choose another --dir") from None
        (folder / "topics").mkdir(exist_ok=True)
        self.topics: dict[str, Topic] = {}
        for path in sorted((folder / "topics").glob("*/topic.json")):
            self._open(path)
        self._producers = self._load("broker.json").get("next_producer_id", 0)
        self._producers_end = self._producers
        self.committed: dict[tuple[str, str, int], tuple[int, str | None]] = {}
        self._offsets = self._open_offsets()

    def _load(self, name: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self._folder / name).read_text())
        except FileNotFoundError:
            return {}
        return found

    # ------------------------------------------------------------ topics

    def _open(self, path: Path) -> None:
        described = json.loads(path.read_text())
        topic = Topic(path.parent.name, bytes.fromhex(described["topic_id"]), path.parent)
        for index, start in enumerate(described["starts"]):
            topic.logs.append(self._log(topic, index, (start[0], start[1])))
        self.topics[topic.name] = topic

    def _log(self, topic: Topic, index: int, start: tuple[int, int] = (0, 0)) -> PartitionLog:
        return PartitionLog(topic.folder / f"{index}.log", start, sync=self._sync)

    def _describe(self, topic: Topic) -> None:
        starts = [(log.start_offset, log.start_position) for log in topic.logs]
        _write(topic.folder / "topic.json", {"topic_id": topic.topic_id.hex(), "starts": starts})

    def create(self, name: str, partitions: int) -> Topic:
        """Makes a topic with a fresh id; durable when it returns."""
        assert name not in self.topics and valid_name(name) and 0 < partitions <= PARTITIONS_MAX
        folder = self._folder / "topics" / name
        shutil.rmtree(folder, ignore_errors=True)  # of a creation or deletion that was cut short
        folder.mkdir()
        topic = Topic(name, uuid4().bytes, folder)
        topic.logs = [self._log(topic, index) for index in range(partitions)]
        self._describe(topic)
        self.topics[name] = topic
        return topic

    def grow(self, topic: Topic, partitions: int) -> None:
        """Adds partitions up to a total."""
        assert len(topic.logs) <= partitions <= PARTITIONS_MAX
        topic.logs += [self._log(topic, index) for index in range(len(topic.logs), partitions)]
        self._describe(topic)

    def delete(self, topic: Topic) -> None:
        """Removes a topic and its records."""
        del self.topics[topic.name]
        (topic.folder / "topic.json").unlink()  # first: without it the rest is no topic
        for log in topic.logs:
            log.close()
        shutil.rmtree(topic.folder)
        for key in [key for key in self.committed if key[1] == topic.name]:
            self.commit(*key, -1, None)

    def by_id(self, topic_id: bytes) -> Topic | None:
        """The topic with an id."""
        return next((topic for topic in self.topics.values() if topic.topic_id == topic_id), None)

    def log(self, topic: str, partition: int) -> PartitionLog | None:
        """The log of a partition, or None."""
        found = self.topics.get(topic)
        return found.logs[partition] if found is not None and 0 <= partition < len(found.logs) else None

    def truncate(self, topic: Topic, partition: int, offset: int) -> None:
        """Begins a partition at ``offset`` and frees the disk before it."""
        topic.logs[partition].start_at(offset)
        self._describe(topic)
        topic.logs[partition].punch()

    def retain(self, topic: Topic, partition: int) -> None:
        """Drops the oldest tenth of a partition that outgrew its bound."""
        log = topic.logs[partition]
        kept = log.size - log.start_position
        if kept > self._retention_bytes:
            offset = log.offset_at(log.start_position + kept // 10)
            self.truncate(topic, partition, offset)

    # ------------------------------------------------------------ producers and groups

    def producer_id(self) -> int:
        """An id that was never given before."""
        if self._producers >= self._producers_end:
            self._producers_end = self._producers + _PRODUCER_BLOCK
            _write(self._folder / "broker.json", {"next_producer_id": self._producers_end})
        self._producers += 1
        return int(self._producers)

    def _open_offsets(self) -> int:
        path = self._folder / "offsets.jsonl"
        for group, topic, partition, offset, metadata in _lines(path):
            if offset >= 0 and topic in self.topics:
                self.committed[group, topic, partition] = offset, metadata
            else:
                self.committed.pop((group, topic, partition), None)
        fresh = path.with_suffix(".new")
        with fresh.open("w") as file:
            for key, value in self.committed.items():
                file.write(json.dumps([*key, *value]) + "\n")
        fresh.replace(path)
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def commit(self, group: str, topic: str, partition: int, offset: int, metadata: str | None) -> None:
        """Stores a group's offset; a negative one forgets it."""
        os.write(self._offsets, (json.dumps([group, topic, partition, offset, metadata]) + "\n").encode())
        if offset < 0:
            self.committed.pop((group, topic, partition), None)
        else:
            self.committed[group, topic, partition] = offset, metadata

    def close(self) -> None:
        """Writes everything through to the disk."""
        for topic in self.topics.values():
            for log in topic.logs:
                log.close()
        os.fsync(self._offsets)
        os.close(self._offsets)
        os.close(self._lock)


def _lines(path: Path) -> Iterator[tuple[str, str, int, int, str | None]]:
    """The changes in the file; a line that was cut short is the last and is left out."""
    if not path.exists():
        return
    for line in path.read_text(errors="replace").splitlines():
        try:
            group, topic, partition, offset, metadata = json.loads(line)
        except ValueError:
            return
        yield group, topic, partition, offset, metadata
