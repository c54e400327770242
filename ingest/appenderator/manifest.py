"""The manifest: which spills and quarantine parts of a task's directory hold which offsets; replaced as a whole.

Written to a temporary file, synced, renamed, and the directory synced: a reader finds the old one or
the new one. Files that no manifest names are leftovers and may be removed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ingest.appenderator.hydrant import Hydrant, Piece, QuarantinePart
from ingest.protocol import PartitionCounts, SequenceRecord
from ingest.wire import WireError, from_json, to_json
from segments.errors import SpillUnreadable
from segments.parquet.spill import MappedSpill
from segments.schema import SegmentSchema
from segments.storage.durable import disk_error, replace_durably, sync_directory, sync_file, temporary_beside

MANIFEST_NAME: Final = "manifest.json"
FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class StoredSequence:
    """One sequence in the manifest: its record and its spilled hydrants in order."""

    record: SequenceRecord
    hydrants: tuple[Hydrant, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """``next_file`` numbers files; it never goes back, so that no name is used twice in a directory."""

    next_file: int
    sequences: tuple[StoredSequence, ...] = ()


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Durable when it returns. Files it names must be durable already.

    Raises:
        StorageFull, StorageMisconfigured, StorageUnavailable: the disk refused; the old manifest stands.
    """
    path = directory / MANIFEST_NAME
    document = {
        "format": FORMAT,
        "nextFile": manifest.next_file,
        "sequences": [
            {"record": to_json(stored.record), "hydrants": [_hydrant_json(h) for h in stored.hydrants]}
            for stored in manifest.sequences
        ],
    }
    try:
        with temporary_beside(path) as (file, temporary):
            file.write(json.dumps(document, separators=(",", ":")).encode())
            sync_file(file)
            replace_durably(temporary, path)
    except OSError as error:
        raise disk_error(error, path, "writing") from error


def read_manifest(directory: Path) -> Manifest:
    """The manifest of a directory; an empty one where there is none or it is not whole.

    Of every sequence only the hydrants up to the first whose files are missing or damaged are kept:
    what follows is read from the stream again.
    """
    try:
        document = json.loads((directory / MANIFEST_NAME).read_bytes())
        if document["format"] != FORMAT:
            return Manifest(1)
        sequences = tuple(_read_sequence(stored, directory) for stored in document["sequences"])
        return Manifest(int(document["nextFile"]), sequences)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, WireError):
        return Manifest(1)


def newest_sequence(directory: Path) -> int | None:
    """The highest sequence number that a manifest names, whether its files are whole or not; -1 where it names
    none or was never written, None where it cannot be read."""
    try:
        document = json.loads((directory / MANIFEST_NAME).read_bytes())
        return max((int(stored["record"]["ref"]["number"]) for stored in document["sequences"]), default=-1)
    except FileNotFoundError:
        return -1
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _read_sequence(stored: Mapping[str, Any], directory: Path) -> StoredSequence:
    hydrants: list[Hydrant] = []
    for value in stored["hydrants"]:
        hydrant = _read_hydrant(value, directory)
        if not _is_whole(hydrant):
            break
        hydrants.append(hydrant)
    return StoredSequence(from_json(SequenceRecord, stored["record"]), tuple(hydrants))


def _is_whole(hydrant: Hydrant) -> bool:
    try:
        for part in hydrant.quarantine:
            if part.path.stat().st_size != part.size_bytes:
                return False
        rows: dict[Path, int] = {}
        for piece in hydrant.pieces:
            assert piece.path is not None
            rows[piece.path] = rows.get(piece.path, 0) + piece.rows
            if piece.path.stat().st_size != piece.file_bytes:
                return False
        for path, expected in rows.items():
            if sum(batch.num_rows for batch in MappedSpill(path).batches) != expected:
                return False
    except (OSError, SpillUnreadable):
        return False
    return True


def _hydrant_json(hydrant: Hydrant) -> dict[str, Any]:
    return {
        "generation": hydrant.generation,
        "schema": hydrant.schema.to_json(),
        "ranges": [[partition, start, end] for partition, (start, end) in hydrant.ranges.items()],
        "counts": to_json(hydrant.counts),
        "rowsIn": to_json(hydrant.rows_in),
        "watermarks": to_json(hydrant.watermarks),
        "spills": [
            {
                "file": _name(piece.path),
                "rows": piece.rows,
                "bytes": piece.size_bytes,
                "fileBytes": piece.file_bytes,
                "times": [piece.min_time_ms, piece.max_time_ms],
                "bucket": piece.bucket_ms,
            }
            for piece in hydrant.pieces
        ],
        "quarantine": [
            {"file": part.path.name, "rows": part.rows, "bytes": part.size_bytes} for part in hydrant.quarantine
        ],
    }


def _name(path: Path | None) -> str:
    assert path is not None, "only spilled hydrants are stored"
    return path.name


def _read_hydrant(value: Mapping[str, Any], directory: Path) -> Hydrant:
    return Hydrant(
        generation=int(value["generation"]),
        schema=SegmentSchema.from_json(value["schema"]),
        ranges={int(partition): (int(start), int(end)) for partition, start, end in value["ranges"]},
        counts=from_json(dict[int, PartitionCounts], value["counts"]),
        rows_in={int(bucket): int(rows) for bucket, rows in value["rowsIn"].items()},
        watermarks={int(partition): int(time_ms) for partition, time_ms in value["watermarks"].items()},
        pieces=tuple(_read_piece(spill, directory) for spill in value["spills"]),
        quarantine=tuple(
            QuarantinePart(directory / part["file"], int(part["rows"]), int(part["bytes"]))
            for part in value["quarantine"]
        ),
        spilled=True,
    )


def _read_piece(spill: Mapping[str, Any], directory: Path) -> Piece:
    first_ms, last_ms = spill["times"]
    # A chunk's number belongs to the attempt; the one who restores gives it a new one.
    return Piece(
        number=0,
        rows=int(spill["rows"]),
        size_bytes=int(spill["bytes"]),
        min_time_ms=int(first_ms),
        max_time_ms=int(last_ms),
        path=directory / spill["file"],
        bucket_ms=int(spill["bucket"]),
        file_bytes=int(spill["fileBytes"]),
    )


def adopt_files(manifest: Manifest, directory: Path) -> Manifest:
    """The same manifest with its files hard-linked (or copied, across file systems) into ``directory``.

    Durable when it returns. The older attempt's process must have been proved ended (PR-26).

    Raises:
        StorageFull, StorageMisconfigured, StorageUnavailable: the disk refused.
    """

    def adopted(path: Path | None) -> Path:
        assert path is not None
        target = directory / path.name
        if target == path or target.exists():
            return target
        try:
            os.link(path, target)
        except OSError:
            _copy(path, target)
        return target

    sequences = [
        replace(
            stored,
            hydrants=tuple(
                replace(
                    hydrant,
                    pieces=tuple(replace(piece, path=adopted(piece.path)) for piece in hydrant.pieces),
                    quarantine=tuple(replace(part, path=adopted(part.path)) for part in hydrant.quarantine),
                )
                for hydrant in stored.hydrants
            ),
        )
        for stored in manifest.sequences
    ]
    sync_directory(directory)
    return replace(manifest, sequences=tuple(sequences))


def _copy(path: Path, target: Path) -> None:
    try:
        with temporary_beside(target) as (file, temporary), path.open("rb") as source:
            shutil.copyfileobj(source, file)
            sync_file(file)
            replace_durably(temporary, target)
    except OSError as error:
        raise disk_error(error, target, "copying a spill to") from error


def remove_leftovers(directory: Path, manifest: Manifest) -> None:
    """Removes files of the directory that the manifest does not name."""
    named = {MANIFEST_NAME}
    for stored in manifest.sequences:
        for hydrant in stored.hydrants:
            named |= {_name(piece.path) for piece in hydrant.pieces} | {part.path.name for part in hydrant.quarantine}
    for path in directory.iterdir():
        if path.is_file() and path.name not in named:
            path.unlink(missing_ok=True)
