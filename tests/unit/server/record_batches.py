"""Builds record batches as a producer sends them, byte by byte, without a client."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import pyarrow as pa

from server.devbroker.batches import crc32c


def _zigzag(value: int) -> bytes:
    value = value << 1 ^ value >> 63
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _compressed(codec: int, data: bytes) -> bytes:
    if codec == 0:
        return data
    if codec == 1:
        pack = zlib.compressobj(wbits=31)
        return pack.compress(data) + pack.flush()
    if codec == 2:
        return bytes(pa.compress(data, codec="snappy", asbytes=True))
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "lz4" if codec == 3 else "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


def batch(
    values: Sequence[bytes],
    *,
    times_ms: Sequence[int] | None = None,
    codec: int = 0,
    attributes: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    """One batch at base offset 0; ``producer`` is its id, epoch and first sequence."""
    times = list(times_ms) if times_ms is not None else [1000] * len(values)
    body = b""
    for index, value in enumerate(values):
        record = b"\0" + _zigzag(times[index] - times[0]) + _zigzag(index) + _zigzag(-1)
        record += _zigzag(len(value)) + value + _zigzag(0)
        body += _zigzag(len(record)) + record
    covered = struct.pack(">hiqq", codec | attributes, len(values) - 1, times[0], max(times))
    covered += struct.pack(">qhii", *producer, len(values)) + _compressed(codec, body)
    rest = struct.pack(">ibI", -1, 2, crc32c(memoryview(covered))) + covered
    return struct.pack(">qi", 0, len(rest)) + rest
