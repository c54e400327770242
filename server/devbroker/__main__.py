"""Runs the development broker: `python -m server.devbroker --dir D --port P --topic name=4`."""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import json
import signal
import sys
from pathlib import Path

from server.devbroker.server import Dispatcher, serve_connection
from server.devbroker.store import PARTITIONS_MAX, FolderInUse, Store, valid_name
from server.devbroker.topics import Address

HOST = "127.0.0.1"
BANNER = """Siltstone development broker: speaks Kafka's protocol on loopback.
Single node, no replicas, no transactions, no authentication: for development only.
"""
_PR_SET_PDEATHSIG = 1


def _topic(text: str) -> tuple[str, int]:
    name, _, count = text.partition("=")
    if not valid_name(name) or not count.isdigit() or not 0 < int(count) <= PARTITIONS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=PARTITIONS with 1 to {PARTITIONS_MAX} partitions")
    return name, int(count)


def _arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m server.devbroker", description=BANNER)
    parser.add_argument("--dir", type=Path, required=True, help="folder of the data; made where missing")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 takes a free one")
    parser.add_argument("--topic", type=_topic, action="append", default=[], help="NAME=PARTITIONS, made where missing")
    parser.add_argument("--sync", action="store_true", help="fsync every write: survives a crash of the machine")
    parser.add_argument("--retention-bytes", type=int, default=1 << 30, help="per partition; the oldest records go")
    parser.add_argument("--die-with-parent", action="store_true", help="end when the starting process ends")
    return parser.parse_args(words)


async def _serve(arguments: argparse.Namespace, store: Store) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for sign in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sign, stop.set)
    connections: set[asyncio.Task[None]] = set()
    dispatcher: Dispatcher | None = None

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None and dispatcher is not None
        connections.add(task)
        await serve_connection(dispatcher, reader, writer)
        connections.discard(task)

    server = await asyncio.start_server(connected, HOST, arguments.port, limit=1 << 20)
    port = server.sockets[0].getsockname()[1]
    dispatcher = Dispatcher(store, Address(HOST, port))
    sys.stdout.write(json.dumps({"bootstrap": f"{HOST}:{port}"}) + "\n")
    sys.stdout.flush()
    await stop.wait()
    server.close()
    for task in list(connections):
        task.cancel()
    await asyncio.gather(*connections, return_exceptions=True)


def main(words: list[str] | None = None) -> int:
    """Serves until SIGTERM or SIGINT. One JSON line on stdout says that it is ready; 1 where it cannot start."""
    arguments = _arguments(sys.argv[1:] if words is None else words)
    if arguments.die_with_parent:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    sys.stderr.write(BANNER)
    try:
        store = Store(arguments.dir, sync=arguments.sync, retention_bytes=arguments.retention_bytes)
    except (FolderInUse, OSError) as e:
        sys.stderr.write(f"the broker cannot start: {e}\n")
        return 1
    try:
        for name, partitions in arguments.topic:
            if name not in store.topics:
                store.create(name, partitions)
        asyncio.run(_serve(arguments, store))
    except OSError as e:
        sys.stderr.write(f"the broker cannot listen on {HOST}:{arguments.port}: {e.strerror}\n")
        return 1
    finally:
        store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
