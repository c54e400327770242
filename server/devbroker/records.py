"""Requests about records and offsets: Produce, Fetch, ListOffsets, DeleteRecords, producer ids, group offsets."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from server.devbroker.batches import BadBatch
from server.devbroker.log import PartitionLog, Refused
from server.devbroker.store import Store
from server.devbroker.topics import INVALID_REQUEST, OK, OUT_OF_RANGE, UNKNOWN_TOPIC
from server.devbroker.wire import Reader, Writer

BATCH_BYTES_MAX = 1_048_588  # Kafka's message.max.bytes
_FETCH_BYTES_MAX = 64 << 20
_WAIT_MS_MAX = 30_000
_EARLIEST, _LATEST, _MAX_TIME = -2, -1, -3
_STORAGE_ERROR = 56


@dataclass(frozen=True, slots=True)
class _Wanted:
    topic: str
    partition: int
    offset: int
    max_bytes: int


class RecordRequests:
    """Answers about records; each method reads one request and returns the answer's body."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def produce(self, r: Reader, version: int) -> Writer | None:
        """Produce 3 to 7. No answer where the producer wants none."""
        transactional = r.text_or_none()
        acks = r.i16()
        r.i32()
        w = Writer()

        def partition(topic: str) -> tuple[int, int, int, int]:
            index, data = r.i32(), r.blob()
            if transactional is not None or data is None:
                return index, INVALID_REQUEST, -1, -1
            return index, *self._append(topic, index, data)

        def topic() -> tuple[str, list[tuple[int, int, int, int]]]:
            name = r.text()
            return name, r.array(lambda: partition(name))

        def written(result: tuple[int, int, int, int]) -> None:
            index, error, base, start = result
            w.i32(index).i16(error).i64(base).i64(-1)
            if version >= 5:
                w.i64(start)

        results = r.array(topic)
        if acks == 0:
            return None
        w.array(results, lambda each: w.text(each[0]).array(each[1], written))
        return w.i32(0)

    def _append(self, topic: str, partition: int, data: memoryview) -> tuple[int, int, int]:
        log = self._store.log(topic, partition)
        if log is None:
            return UNKNOWN_TOPIC, -1, -1
        try:
            base = log.append(data, BATCH_BYTES_MAX)
            self._store.retain(self._store.topics[topic], partition)
        except (BadBatch, Refused) as e:
            return e.code, -1, -1
        except OSError:  # the disk is full: the producer tries again
            return _STORAGE_ERROR, -1, -1
        return OK, base, log.start_offset

    async def fetch(self, r: Reader, version: int) -> Writer:
        """Fetch 4 to 6: answers when there is enough, or after the client's time."""
        r.i32()
        wait_ms, least, most = r.i32(), r.i32(), r.i32()
        r.i8()

        def partition(topic: str) -> _Wanted:
            index, offset = r.i32(), r.i64()
            if version >= 5:
                r.i64()
            return _Wanted(topic, index, offset, r.i32())

        def topic() -> list[_Wanted]:
            name = r.text()
            return r.array(lambda: partition(name))

        wanted = r.array(topic)
        loop = asyncio.get_running_loop()
        end = loop.time() + min(max(wait_ms, 0), _WAIT_MS_MAX) / 1000
        while True:
            w, enough, logs = self._gather(wanted, version, least, min(most, _FETCH_BYTES_MAX))
            left_s = end - loop.time()
            if enough or left_s <= 0 or not logs:
                return w
            await _appended(logs, left_s)

    def _gather(
        self, wanted: list[list[_Wanted]], version: int, least: int, most: int
    ) -> tuple[Writer, bool, list[PartitionLog]]:
        """The answer as of now, whether it is worth sending, and the logs whose next append may change it."""
        w = Writer().i32(0)
        logs: list[PartitionLog] = []
        taken, failed = 0, False

        def partition(want: _Wanted) -> None:
            nonlocal taken, failed
            log = self._store.log(want.topic, want.partition)
            error, end, start, data = UNKNOWN_TOPIC, -1, -1, b""
            if log is not None:
                end, start = log.next_offset, log.start_offset
                error = OK if start <= want.offset <= end else OUT_OF_RANGE
                if error == OK and taken < max(most, 1):
                    data = log.read(want.offset, min(max(want.max_bytes, 0), most - taken))
                    logs.append(log)
            taken += len(data)
            failed = failed or error != OK
            w.i32(want.partition).i16(error).i64(end).i64(end)
            if version >= 5:
                w.i64(start)
            w.i32(-1).blob(data)

        w.array([topic for topic in wanted if topic], lambda topic: w.text(topic[0].topic).array(topic, partition))
        return w, failed or taken >= max(least, 1), logs

    def list_offsets(self, r: Reader, version: int) -> Writer:
        """ListOffsets 1 to 7: ends, the largest time, or the first record at or after a time."""
        r.i32()
        if version >= 2:
            r.i8()  # without transactions both isolation levels see the same end

        def partition() -> tuple[int, int]:
            index = r.i32()
            if version >= 4:
                r.i32()
            timestamp_ms = r.i64()
            r.tags()
            return index, timestamp_ms

        def topic() -> tuple[str, list[tuple[int, int]]]:
            name, partitions = r.text(), r.array(partition)
            r.tags()
            return name, partitions

        wanted = r.array(topic)
        w = Writer(r.flexible)
        if version >= 2:
            w.i32(0)

        def answer(name: str, index: int, timestamp_ms: int) -> None:
            error, offset, found_ms = self._offset(name, index, timestamp_ms)
            w.i32(index).i16(error).i64(found_ms).i64(offset)
            if version >= 4:
                w.i32(0 if offset >= 0 else -1)
            w.tags()

        w.array(wanted, lambda each: w.text(each[0]).array(each[1], lambda part: answer(each[0], *part)) and w.tags())
        return w.tags()

    def _offset(self, topic: str, partition: int, timestamp_ms: int) -> tuple[int, int, int]:
        log = self._store.log(topic, partition)
        if log is None:
            return UNKNOWN_TOPIC, -1, -1
        if timestamp_ms == _EARLIEST:
            return OK, log.start_offset, -1
        if timestamp_ms == _LATEST:
            return OK, log.next_offset, -1
        if timestamp_ms == _MAX_TIME:
            return OK, *log.latest_time()
        if timestamp_ms < 0:
            return INVALID_REQUEST, -1, -1
        return OK, *log.by_time(timestamp_ms)

    def delete_records(self, r: Reader, version: int) -> Writer:
        """DeleteRecords 0 and 1: moves the start of a log, -1 to its end."""
        w = Writer().i32(0)

        def topic() -> tuple[str, list[tuple[int, int]]]:
            return r.text(), r.array(lambda: (r.i32(), r.i64()))

        def partition(name: str, index: int, offset: int) -> None:
            log = self._store.log(name, index)
            if log is None:
                w.i32(index).i64(-1).i16(UNKNOWN_TOPIC)
                return
            target = log.next_offset if offset == -1 else offset
            if not 0 <= target <= log.next_offset:
                w.i32(index).i64(-1).i16(OUT_OF_RANGE)
                return
            if target > log.start_offset:
                self._store.truncate(self._store.topics[name], index, target)
            w.i32(index).i64(log.start_offset).i16(OK)

        return w.array(
            r.array(topic), lambda each: w.text(each[0]).array(each[1], lambda part: partition(each[0], *part))
        )

    def producer_id(self, r: Reader, version: int) -> Writer:
        """InitProducerId 0 and 1, for idempotent producers; transactions are refused."""
        transactional = r.text_or_none()
        if transactional is not None:
            return Writer().i32(0).i16(INVALID_REQUEST).i64(-1).i16(-1)
        return Writer().i32(0).i16(OK).i64(self._store.producer_id()).i16(0)

    def commit(self, r: Reader, version: int) -> Writer:
        """OffsetCommit 2 to 4."""
        group = r.text()
        r.i32()
        r.text()
        r.i64()
        w = Writer()
        if version >= 3:
            w.i32(0)

        def partition(name: str) -> tuple[int, int]:
            index, offset, metadata = r.i32(), r.i64(), r.text_or_none()
            if self._store.log(name, index) is None:
                return index, UNKNOWN_TOPIC
            self._store.commit(group, name, index, offset, metadata)
            return index, OK

        def topic() -> tuple[str, list[tuple[int, int]]]:
            name = r.text()
            return name, r.array(lambda: partition(name))

        return w.array(r.array(topic), lambda each: w.text(each[0]).array(each[1], lambda p: w.i32(p[0]).i16(p[1])))

    def committed(self, r: Reader, version: int) -> Writer:
        """OffsetFetch 1 to 4."""
        group = r.text()
        asked = r.array_or_none(lambda: (r.text(), r.array(r.i32)))
        if asked is None:
            mine: dict[str, list[int]] = {}
            for _, topic, index in (key for key in self._store.committed if key[0] == group):
                mine.setdefault(topic, []).append(index)
            asked = list(mine.items())
        w = Writer()
        if version >= 3:
            w.i32(0)

        def partition(topic: str, index: int) -> None:
            offset, metadata = self._store.committed.get((group, topic, index), (-1, None))
            w.i32(index).i64(offset).text(metadata if metadata is not None else "").i16(OK)

        w.array(asked, lambda each: w.text(each[0]).array(each[1], lambda index: partition(each[0], index)))
        return w.i16(OK) if version >= 2 else w


async def _appended(logs: list[PartitionLog], left_s: float) -> None:
    """Returns at the next append to one of the logs, or after the time."""
    waiting = asyncio.get_running_loop().create_future()
    for log in logs:
        log.wait(waiting)
    try:
        await asyncio.wait([waiting], timeout=left_s)
    finally:
        for log in logs:
            log.leave(waiting)
        waiting.cancel()
