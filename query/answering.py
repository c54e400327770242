"""Takes a query worker's jobs, one at a time, and sends what they make."""

from __future__ import annotations

import json
import os
import queue
import socket
import threading
from collections.abc import Iterator

import pyarrow as pa

from query.sandbox import Sandbox
from query.worker_memory import Memory
from query.worker_wire import STARVED_CODE, TIRED, Frames, Job, Kind, decode_job, decode_settings, receive, send

ROW_BYTES_MAX = 128 * 2**20
_PIECE_BYTES = 4 * 2**20
_KINDS = {
    "Conversion Error": "ConversionException",
    "FATAL Error": "FatalException",
    "INTERNAL Error": "InternalException",
    "IO Error": "IOException",
    "INTERRUPT Error": "InterruptException",
    "Invalid Input Error": "InvalidInputException",
    "Out of Memory Error": "OutOfMemoryException",
    "Out of Range Error": "OutOfRangeException",
}


class RowTooLarge(Exception):
    """One row alone is more than the server would hold."""


def serve(connection: socket.socket, spelled: str) -> None:
    """Runs until the socket is closed; ``spelled`` are the worker's settings."""
    settings = decode_settings(spelled)
    sandbox = Sandbox(settings)
    sandbox.warm()
    memory = Memory(settings.memory_bytes, sandbox.interrupt)
    jobs: queue.SimpleQueue[tuple[Kind, bytes]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(connection, sandbox, jobs), daemon=True).start()
    memory.seal()
    send(connection, Kind.READY)
    while True:
        kind, payload = jobs.get()
        if kind is Kind.TRIM:
            sandbox.trim()
        elif kind is Kind.JOB:
            try:
                _answer(connection, sandbox, memory, decode_job(payload))
            except ConnectionError:
                os._exit(0)


def _listen(connection: socket.socket, sandbox: Sandbox, jobs: queue.SimpleQueue[tuple[Kind, bytes]]) -> None:
    while True:
        try:
            frame = receive(connection)
        except MemoryError:
            os._exit(STARVED_CODE)
        if frame is None:
            # The pool is gone or has given this worker up: nobody will read an answer.
            os._exit(0)
        kind, payload = frame
        if kind is Kind.CANCEL:
            sandbox.interrupt(int(payload))
        else:
            jobs.put((kind, payload))


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in pieces of which the server can hold many, however long its texts are."""
    if batch.nbytes <= _PIECE_BYTES or (batch.num_rows <= 1 and batch.nbytes <= ROW_BYTES_MAX):
        yield batch
    elif batch.num_rows <= 1:
        raise RowTooLarge(f"a row of the answer has {batch.nbytes} bytes; at most {ROW_BYTES_MAX} are sent")
    else:
        half = batch.num_rows // 2
        yield from _pieces(batch.slice(0, half))
        yield from _pieces(batch.slice(half))


def _kind_of(error: Exception) -> str:
    """The engine's name of an error. One that comes after the first rows went through a reader that knows only its
    text, which begins with what it is."""
    if isinstance(error, OSError):
        return _KINDS.get(str(error).partition(":")[0], type(error).__name__)
    return type(error).__name__


def _answer(connection: socket.socket, sandbox: Sandbox, memory: Memory, job: Job) -> None:
    frames = Frames(connection)
    memory.begin(job.number)
    failed: dict[str, object] | None = None
    try:
        _send_parts(sandbox, job, frames)
    except Exception as error:
        # Whatever went wrong, the pool must hear of it; this process is good for the next job.
        kind = "OutOfMemoryException" if memory.is_starved(job.number) else _kind_of(error)
        failed = {"kind": kind, "message": str(error), "limit": memory.limit_bytes}
        frames.drop()
    is_tired = memory.finish()
    if failed is None:
        frames.add(Kind.END, TIRED if is_tired else b"")
    else:
        frames.add(Kind.ERROR, json.dumps(failed | {"tired": is_tired}).encode())
    frames.flush()


def _send_parts(sandbox: Sandbox, job: Job, frames: Frames) -> None:
    for part in sandbox.run(job):
        if isinstance(part, bytes):
            frames.add(Kind.GROUPS, part)
            continue
        kind = Kind.SCHEMA if isinstance(part, pa.Schema) else Kind.BATCH
        for piece in _pieces(part) if isinstance(part, pa.RecordBatch) else (part,):
            frames.add(kind, memoryview(piece.serialize()))
        if isinstance(part, pa.RecordBatch) and part.num_rows >= sandbox.batch_rows:
            # There may be more, and it may take its time; a batch that is not full is the last.
            frames.flush()
