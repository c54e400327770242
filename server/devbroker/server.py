"""Connections: frames in, answers out, in order; a malformed frame ends its own connection only."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from inspect import isawaitable
from typing import Any

import structlog

from server.devbroker.records import RecordRequests
from server.devbroker.store import Store
from server.devbroker.topics import UNSUPPORTED_VERSION, Address, TopicRequests, versions
from server.devbroker.wire import Malformed, Reader, Writer

FRAME_BYTES_MAX = 100 << 20  # Kafka's socket.request.max.bytes
_API_VERSIONS = 18
# First flexible version of each request that has one here.
_FLEXIBLE = {2: 6, 3: 9, _API_VERSIONS: 3}

log = structlog.get_logger(__name__)


class Dispatcher:
    """One frame to one answer."""

    def __init__(self, store: Store, address: Address) -> None:
        topics, records = TopicRequests(store, address), RecordRequests(store)
        self.apis: dict[int, tuple[int, int, Callable[[Reader, int], Any]]] = {
            0: (3, 7, records.produce),
            1: (4, 6, records.fetch),
            2: (1, 7, records.list_offsets),
            3: (1, 12, topics.metadata),
            8: (2, 4, records.commit),
            9: (1, 4, records.committed),
            10: (0, 2, topics.coordinator),
            _API_VERSIONS: (0, 3, lambda r, version: versions(self.apis, version)),
            19: (0, 4, topics.create),
            20: (0, 3, topics.delete),
            21: (0, 1, records.delete_records),
            22: (0, 1, records.producer_id),
            37: (0, 1, topics.grow),
        }

    async def answer(self, frame: bytes) -> bytes | None:
        """The answer to one request, without its length; None where the client wants none.

        Raises:
            Malformed: the frame cannot be read, or asks for what was not announced.
        """
        r = Reader(frame)
        key, version, correlation = r.i16(), r.i16(), r.i32()
        known = self.apis.get(key)
        if known is None or not known[0] <= version <= known[1]:
            if key == _API_VERSIONS:  # the one request that may be too new: told so in version 0
                return struct.pack(">i", correlation) + versions(self.apis, 0, UNSUPPORTED_VERSION).done()
            raise Malformed(f"request {key} version {version} was not announced")
        r.plain_text()
        r.flexible = version >= _FLEXIBLE.get(key, 99)
        r.tags()
        body: Writer | None = known[2](r, version)
        if isawaitable(body):
            body = await body
        if body is None:
            return None
        head = struct.pack(">i", correlation)
        if r.flexible and key != _API_VERSIONS:
            head += b"\x00"
        return head + body.done()


async def serve_connection(dispatcher: Dispatcher, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serves one client until it leaves or sends what is no request."""
    try:
        while True:
            size = int.from_bytes(await reader.readexactly(4), "big", signed=True)
            if not 8 <= size <= FRAME_BYTES_MAX:
                raise Malformed(f"a frame of {size} bytes")
            answer = await dispatcher.answer(await reader.readexactly(size))
            if answer is not None:
                writer.write(len(answer).to_bytes(4, "big") + answer)
                await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
        pass
    except Malformed as e:
        log.warning("connection closed", reason=str(e))
    finally:
        writer.close()
