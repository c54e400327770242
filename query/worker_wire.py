"""Spells what a query worker and its pool say to each other: framed messages over one socket.

A frame is one byte of kind, four bytes of length (big-endian), and the payload. Jobs and errors are JSON; a
result is an Arrow IPC schema message followed by record batch messages, each in a frame of its own, so that
neither side ever holds more than a frame.
"""

from __future__ import annotations

import json
import socket
import struct
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from query.binding import ArrowInput, Function, Relation, RowInput

ROOT_FD = 100
BATCH_ROWS = 8_192
"""Of a full batch; one that has fewer is the last."""
STARVED_CODE = 77
"""With which a worker ends that cannot even hear what it is told."""
TIRED = b"tired"
"""With the end of a job: the process would have less memory for the next one, and is better replaced."""
_SMALL_BYTES = 64 << 10
_HEADER = struct.Struct(">cI")
_LENGTH = struct.Struct(">I")


class Kind(Enum):
    """What a frame holds."""

    READY = b"R"  # worker: it can take jobs
    JOB = b"J"  # pool: run this
    CANCEL = b"C"  # pool: stop the job of this number
    GROUPS = b"G"  # worker: what a step made, after the length of its name and its name
    TRIM = b"T"  # pool: let go of mapped files that have been removed
    SCHEMA = b"S"
    BATCH = b"B"
    END = b"E"  # worker: the job is done
    ERROR = b"X"  # worker: the job is over without an answer


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What one worker may use: ``roots`` are the only folders whose files it may open, ``memory_bytes``
    bounds its whole memory, ``temp_bytes`` what it spills to ``temp_dir``.
    """

    roots: tuple[str, ...]
    temp_dir: str
    memory_bytes: int
    temp_bytes: int
    threads: int
    batch_rows: int = BATCH_ROWS


@dataclass(frozen=True, slots=True)
class Step:
    """Groups that the statement reads under ``name``: what ``sql`` makes of its relations, or ``kept`` ones.

    ``kept`` is an Arrow IPC stream, which ``sql`` may read under the same name. ``is_told``: what it makes is sent.
    """

    name: str
    sql: str
    relations: tuple[Relation, ...] = ()
    kept: bytes = b""
    is_told: bool = True


@dataclass(frozen=True, slots=True)
class Job:
    """One statement with the relations it reads; ``number`` is the pool's name for it. ``is_small``: its answer may be
    held as a whole. ``steps`` come first; what each makes is sent, and may have ``groups_bytes``."""

    number: int
    sql: str
    relations: tuple[Relation, ...]
    functions: tuple[Function, ...] = ()
    is_small: bool = False
    steps: tuple[Step, ...] = ()
    groups_bytes: int = 0


def root_path(index: int) -> str:
    """How a worker names its root of that index.

    By a descriptor, so that nothing in the folder's own name (a glob character, ``key=value``) reaches the
    engine, which would read a neighbour's files or make columns of it.
    """
    return f"/proc/self/fd/{ROOT_FD + index}"


def send(connection: socket.socket, kind: Kind, payload: Any = b"") -> None:
    """Sends one frame; blocks while the other side does not read."""
    header = _HEADER.pack(kind.value, len(payload))
    if len(payload) <= _SMALL_BYTES:
        # In one piece, or the other side wakes up for five bytes and sleeps again.
        connection.sendall(header + bytes(payload))
    else:
        connection.sendall(header)
        connection.sendall(payload)


class Frames:
    """Frames that go out together while they are small: the other side wakes up once for a small answer."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._held = bytearray()

    def add(self, kind: Kind, payload: Any = b"") -> None:
        """Holds a small frame until ``flush``; sends a large one, and what was held before it."""
        if len(self._held) + len(payload) > _SMALL_BYTES:
            self.flush()
        if len(payload) > _SMALL_BYTES:
            send(self._connection, kind, payload)
        else:
            self._held += _HEADER.pack(kind.value, len(payload)) + bytes(payload)

    def flush(self) -> None:
        """Sends what is held."""
        if self._held:
            self._connection.sendall(self._held)
            self._held.clear()

    def drop(self) -> None:
        """Forgets what is held."""
        self._held.clear()


def receive(connection: socket.socket) -> tuple[Kind, bytes] | None:
    """The next frame; None when the other side is gone."""
    header = _receive_exactly(connection, _HEADER.size)
    if header is None:
        return None
    kind, length = _HEADER.unpack(header)
    payload = _receive_exactly(connection, length)
    return None if payload is None else (Kind(kind), bytes(payload))


def _receive_exactly(connection: socket.socket, length: int) -> bytearray | None:
    buffer = bytearray(length)
    view, at = memoryview(buffer), 0
    while at < length:
        try:
            got = connection.recv_into(view[at:])
        except ConnectionError:
            return None
        if not got:
            return None
        at += got
    return buffer


def encode_job(job: Job) -> bytes:
    """The job as JSON after its length, then what is kept for its steps."""
    whole: dict[str, Any] = {"number": job.number, "sql": job.sql, "relations": _listed(job.relations)}
    whole["functions"] = [{"name": one.name, "path": one.path} for one in job.functions]
    whole["isSmall"] = job.is_small
    whole["groupsBytes"] = job.groups_bytes
    whole["steps"] = [
        {
            "name": step.name,
            "sql": step.sql,
            "relations": _listed(step.relations),
            "kept": len(step.kept),
            "isTold": step.is_told,
        }
        for step in job.steps
    ]
    spelled = json.dumps(whole).encode()
    return b"".join([_LENGTH.pack(len(spelled)), spelled, *(step.kept for step in job.steps)])


def _listed(relations: tuple[Relation, ...]) -> list[dict[str, Any]]:
    # By hand: a walk through dataclasses would take longer than many queries.
    return [
        {
            "name": relation.name,
            "sql": relation.sql,
            "arrow": [{"name": a.name, "paths": a.paths, "columns": a.columns} for a in relation.arrow],
            "rows": [{"name": r.name, "stream": r.stream} for r in relation.rows],
        }
        for relation in relations
    ]


def decode_job(payload: bytes) -> Job:
    """Reads what ``encode_job`` wrote."""
    at = _LENGTH.size + _LENGTH.unpack_from(payload)[0]
    value = json.loads(payload[_LENGTH.size : at])
    functions = tuple(Function(item["name"], item["path"]) for item in value["functions"])
    steps = []
    for item in value["steps"]:
        kept = payload[at : at + item["kept"]]
        at += item["kept"]
        steps.append(Step(item["name"], item["sql"], tuple(map(_relation, item["relations"])), kept, item["isTold"]))
    relations = tuple(map(_relation, value["relations"]))
    return Job(
        value["number"], value["sql"], relations, functions, value["isSmall"], tuple(steps), value["groupsBytes"]
    )


def _relation(value: dict[str, Any]) -> Relation:
    arrow = [ArrowInput(a["name"], tuple(a["paths"]), tuple(a["columns"])) for a in value["arrow"]]
    rows = [RowInput(r["name"], r["stream"]) for r in value["rows"]]
    return Relation(value["name"], value["sql"], tuple(arrow), tuple(rows))


def encode_groups(name: str, groups: Any) -> bytes:
    """What a step made, with its name."""
    spelled = name.encode()
    return bytes([len(spelled)]) + spelled + bytes(groups)


def decode_groups(payload: bytes) -> tuple[str, bytes]:
    """Reads what ``encode_groups`` wrote."""
    end = 1 + payload[0]
    return payload[1:end].decode(), payload[end:]


def encode_settings(settings: WorkerSettings) -> str:
    """The settings as JSON, for the worker's command line."""
    return json.dumps(asdict(settings))


def decode_settings(text: str) -> WorkerSettings:
    """Reads what ``encode_settings`` wrote."""
    value = json.loads(text)
    return WorkerSettings(**(value | {"roots": tuple(value["roots"])}))
