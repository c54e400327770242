"""The quarantine over HTTP: files of records that could not be read, and what lies in them; read from deep storage."""

from __future__ import annotations

import base64
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from ingest.appenderator.quarantine import read_records
from ingest.metadata.records import QuarantineRow
from ingest.metadata.store import MetadataStore
from segments.civil import format_iso_ms
from segments.errors import SegmentNotFound
from segments.known import there_are
from segments.storage.base import DeepStorage
from server.api import openapi
from server.api.answers import BadRequest, JsonResponse, NotFound
from server.api.requests import number

FILES_MAX = 1_000
RECORDS_MAX = 1_000
RECORD_BYTES_MAX = 8 * 2**20
PULLS_MAX = 2
"""So many files are copied from deep storage at a time; who asks meanwhile is told to ask again."""
_CHUNK_BYTES = 2**18
STATES = {"published": "kept"}
"""What people are told of a file's state: ``kept`` while its records wait, ``replayed``, ``expired``."""

_LIMIT = ("limit", {"type": "integer", "minimum": 1, "maximum": FILES_MAX}, "at most so many")
_BEFORE = ("before", {"type": "string"}, "only files older than this one, by its path")
_PATH = ("path", {"type": "string"}, "which file; needed")
_OFFSET = ("offset", {"type": "integer", "minimum": 0, "default": 0}, "how many of its records to pass over")


def quarantine_router(store: MetadataStore, storage: DeepStorage, scratch: Path) -> APIRouter:
    """Three routes. Files are copied to ``scratch`` while they are read and leave nothing there."""
    router = APIRouter(prefix="/siltstone/v1", tags=["quarantine"])
    copies = _Copies(storage, scratch)

    @router.get("/quarantine/{table}", openapi_extra=openapi.parameters(_LIMIT, _BEFORE))
    def files(table: str, request: Request) -> Response:
        """A table's quarantine files, newest first; ``next`` is the ``before`` of the next page."""
        limit = number(request, "limit", 100, FILES_MAX)
        found = store.quarantine_files(table, limit, request.query_params.get("before"))
        if not found and table not in store.datasources():
            raise NotFound(f"no table is named {table!r}{there_are(table, store.datasources())}")
        following = found[-1].path if len(found) == limit else None
        return JsonResponse({"table": table, "files": [file_json(row) for row in found], "next": following})

    @router.get("/quarantine/{table}/records", openapi_extra=openapi.parameters(_PATH, _OFFSET, _LIMIT))
    def records(table: str, request: Request) -> Response:
        """Records of one file in the order in which they were read; ``next`` is the ``offset`` of the next page."""
        row = _file(store, table, request)
        offset = number(request, "offset", 0, 10**18 - 1, least=0)
        limit = number(request, "limit", 100, RECORDS_MAX)
        with copies.pulled(row) as local:
            total, found = read_records(local, offset, limit, RECORD_BYTES_MAX)
        following = offset + len(found) if found and offset + len(found) < total else None
        told = {"table": table, "path": row.path, "rows": total}
        return JsonResponse({**told, "records": [_record_json(record) for record in found], "next": following})

    @router.get("/quarantine/{table}/file", openapi_extra=openapi.parameters(_PATH))
    def file(table: str, request: Request) -> Response:
        """One file as it is: Parquet."""
        with copies.pulled(_file(store, table, request)) as local:
            size = local.stat().st_size
            opened = local.open("rb")  # outlives its name
        headers = {"content-length": str(size)}
        return StreamingResponse(_chunks(opened), media_type="application/vnd.apache.parquet", headers=headers)

    return router


class _Copies:
    """Local copies of stored files, a few at a time."""

    def __init__(self, storage: DeepStorage, scratch: Path) -> None:
        self._storage = storage
        self._scratch = scratch
        self._free = threading.BoundedSemaphore(PULLS_MAX)

    @contextmanager
    def pulled(self, row: QuarantineRow) -> Iterator[Path]:
        """A copy, until the block ends."""
        if not self._free.acquire(timeout=5):
            raise HTTPException(429, f"{PULLS_MAX} quarantine files are being read; ask again")
        try:
            with tempfile.TemporaryDirectory(dir=self._scratch, prefix="quarantine-") as folder:
                local = Path(folder) / "records.parquet"
                try:
                    self._storage.pull(row.load_spec, local)
                except SegmentNotFound as error:
                    raise NotFound(f"{row.path} is gone from deep storage: {error}") from error
                yield local
        finally:
            self._free.release()


def file_json(row: QuarantineRow) -> dict[str, Any]:
    """What is told of a file; ``created`` is when it was published."""
    return {
        "supervisor": row.ref.supervisor,
        "sequence": row.ref.name,
        "rows": row.rows,
        "bytes": row.size_bytes,
        "created": format_iso_ms(row.published_ms),
        "path": row.path,
        "state": STATES.get(row.state, row.state),
        "replayedBy": row.replayed_by,
    }


def _record_json(record: dict[str, Any]) -> dict[str, Any]:
    """A value that is text is shown as text, another in base64."""
    value, at_ms = record["value"], record["timestamp"]
    told = {**record, "timestamp": None if at_ms is None else format_iso_ms(at_ms)}
    if value is None:
        return told
    try:
        return {**told, "value": value.decode()}
    except UnicodeDecodeError:
        return {**told, "value": None, "valueBase64": base64.b64encode(value).decode()}


def _file(store: MetadataStore, table: str, request: Request) -> QuarantineRow:
    path = request.query_params.get("path")
    if not path:
        raise BadRequest("path: names the file, as the list of the table's quarantine files tells it")
    row = store.quarantine_file(table, path)
    if row is None:
        raise NotFound(f"table {table!r} has no quarantine file {path!r}")
    if row.state == "expired":
        raise NotFound(f"{path} was given up for its age or size; see settings quarantine.*")
    return row


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk
