"""Record batches (format v2): checked, split, and searched by the timestamps of their records."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

HEADER = 61  # bytes of a batch before its records
_PREFIX = 12  # base offset and length, not counted in the length
_FIXED = struct.Struct(">qiibIhiqqqhii")
_TRANSACTIONAL, _CONTROL, _CODEC = 0x10, 0x20, 0x07
_LARGEST_UNPACKED = 256 << 20


class BadBatch(Exception):
    """The bytes are not batches that can be stored; ``code`` is Kafka's error."""

    def __init__(self, code: int, text: str) -> None:
        self.code = code
        super().__init__(text)


CORRUPT, TOO_LARGE, INVALID_RECORD, OLD_FORMAT, NO_CODEC = 2, 10, 87, 43, 76


@dataclass(frozen=True, slots=True)
class Batch:
    """The header of one batch; ``size`` is all of its bytes."""

    base_offset: int
    size: int
    magic: int
    crc: int
    attributes: int
    last_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    @property
    def next_offset(self) -> int:
        """The offset after the batch."""
        return self.base_offset + self.last_delta + 1


def header(data: bytes | memoryview) -> Batch:
    """Reads a header from at least `HEADER` bytes, unchecked."""
    offset, length, _epoch, magic, crc, attributes, delta, first_ms, last_ms, pid, epoch, sequence, count = (
        _FIXED.unpack_from(data)
    )
    return Batch(
        offset, length + _PREFIX, magic, crc, attributes, delta, first_ms, last_ms, pid, epoch, sequence, count
    )


def split(data: memoryview, largest: int) -> list[tuple[Batch, memoryview]]:
    """Checks what a producer sent and cuts it into batches.

    The checksum is left to the readers, who check it anyway.

    Raises:
        BadBatch: something cannot be stored; nothing of it may be.
    """
    out: list[tuple[Batch, memoryview]] = []
    at = 0
    while at < len(data):
        if len(data) - at < HEADER:
            raise BadBatch(OLD_FORMAT if _old(data[at:]) else CORRUPT, "a batch is cut short")
        batch = header(data[at:])
        if batch.magic != 2:
            raise BadBatch(OLD_FORMAT, f"message format {batch.magic} is not kept, only 2")
        if not HEADER <= batch.size <= len(data) - at:
            raise BadBatch(CORRUPT, "a batch's length is wrong")
        if batch.size > largest:
            raise BadBatch(TOO_LARGE, f"a batch of {batch.size} bytes, at most {largest} are taken")
        if batch.count < 1 or batch.last_delta != batch.count - 1 or batch.attributes & (_TRANSACTIONAL | _CONTROL):
            raise BadBatch(INVALID_RECORD, "empty, transactional and control batches are not taken")
        if batch.attributes & _CODEC > 4:
            raise BadBatch(NO_CODEC, "unknown compression")
        out.append((batch, data[at : at + batch.size]))
        at += batch.size
    if not out:
        raise BadBatch(CORRUPT, "no batch")
    return out


def _old(data: memoryview) -> bool:
    return len(data) > 16 and data[16] in (0, 1)


def stamped(data: memoryview, base_offset: int) -> bytes:
    """The batch at its place in the log. Base offset and leader epoch lie outside the checksum."""
    return struct.pack(">qii", base_offset, len(data) - _PREFIX, 0) + data[16:]


def whole(data: bytes) -> bool:
    """Whether the checksum of one complete batch is right."""
    return crc32c(memoryview(data)[21:]) == header(data).crc


def records(data: bytes) -> Iterator[tuple[int, int]]:
    """Offset and timestamp (ms) of each record of one batch, in order."""
    batch = header(data)
    body = _unpacked(batch.attributes & _CODEC, data[HEADER:])
    at = 0
    for _ in range(batch.count):
        size, at = _zigzag(body, at)
        time_delta, inner = _zigzag(body, at + 1)
        offset_delta, _ = _zigzag(body, inner)
        yield batch.base_offset + offset_delta, batch.base_timestamp_ms + time_delta
        at += size


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7


def _unpacked(codec: int, data: bytes) -> bytes:
    if codec == 0:
        return data
    if codec == 1:
        return zlib.decompress(data, 47)
    import pyarrow as pa  # only a search by time in compressed batches needs it

    if codec == 2:
        return b"".join(_snappy(data))
    name: Literal["lz4", "zstd"] = "lz4" if codec == 3 else "zstd"
    with pa.CompressedInputStream(pa.BufferReader(data), name) as stream:
        return bytes(stream.read(_LARGEST_UNPACKED))


def _snappy(data: bytes) -> Iterator[bytes]:
    """Raw blocks, or the framing of the Java client."""
    import pyarrow as pa

    blocks = [data]
    if data.startswith(b"\x82SNAPPY\x00"):
        blocks, at = [], 16
        while at < len(data):
            size = int.from_bytes(data[at : at + 4], "big")
            blocks.append(data[at + 4 : at + 4 + size])
            at += 4 + size
    for block in blocks:
        size = shift = 0
        for byte in block[:5]:
            size |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                break
        yield pa.decompress(block, min(size, _LARGEST_UNPACKED), codec="snappy", asbytes=True)


def _table() -> list[int]:
    out = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        out.append(value)
    return out


_CRC = _table()


def crc32c(data: memoryview) -> int:
    """The Castagnoli checksum; about 15 MB/s, so it is for the tail of a log only."""
    crc = 0xFFFFFFFF
    table = _CRC
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF
