"""The rules of ``indexSpec``, and which fields of ioConfig and tuningConfig have no meaning here, with the reason."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, StrictStr

from ingest.spec.edge import Edge, IOConfigEdge, TuningEdge
from ingest.spec.notes import Notes, read_block
from segments.parquet.codecs import Codec, Codecs

_CODECS: Final[dict[str, Codec]] = {"lz4": "lz4", "lzf": "lz4", "zstd": "zstd", "uncompressed": "none", "none": "none"}
_AT_ONCE: Final = "spills and merges have a thread each"
_HEAP: Final = "rows wait in memory as Arrow columns, counted by their bytes"
_FILES: Final = "a segment is a Parquet file"
_TALK: Final = "tasks are asked in parallel, and every request has its own limit"
_FOLLOWED: Final = "tasks are followed by their heartbeats, and the stream is looked at every few seconds"

IO_WITHOUT_MEANING: Final = {
    "pollTimeout": "a poll returns as soon as there are records",
    "startDelay": "a supervisor begins at once",
    "period": _FOLLOWED,
    "stopTaskCount": "a sequence ends without its task, which reads on: no rollover needs a free slot",
    "serverPriorityToReplicas": "every replica answers queries",
}
"""Fields of ioConfig that are read and judged, and change nothing."""
TUNING_WITHOUT_MEANING: Final = {
    "appendableIndexSpec": _HEAP,
    "skipBytesInMemoryOverheadCheck": _HEAP,
    "maxPendingPersists": _AT_ONCE,
    "numPersistThreads": _AT_ONCE,
    "indexSpecForIntermediatePersists": "spills are Arrow files without compression",
    "maxColumnsToMerge": "spills are merged in one pass",
    "segmentWriteOutMediumFactory": _FILES,
    "handoffConditionTimeout": "a task keeps its rows until every query node has taken them over",
    "skipSequenceNumberAvailabilityCheck": "offsets are always looked for, and what is missing is named",
    "releaseLocksOnHandoff": "there are no task locks",
    "workerThreads": _TALK,
    "chatThreads": _TALK,
    "chatRetries": _TALK,
    "httpTimeout": _TALK,
    "shutdownTimeout": "a task that is told to end keeps what it has read on its disk",
    "offsetFetchPeriod": f"{_FOLLOWED}; only emitTimeLagMetrics keeps to it",
    "repartitionTransitionDuration": "partitions move at a checkpoint, without a time in between",
}
"""Fields of tuningConfig that are read and judged, and change nothing."""
INDEX_WITHOUT_MEANING: Final = ("bitmap", "longEncoding", "stringDictionaryEncoding", "segmentLoader", "columnFormat")


class IndexEdge(Edge):
    """Druid's indexSpec as JSON."""

    dimension_compression: StrictStr = "zstd"
    metric_compression: StrictStr = "zstd"
    complex_metric_compression: StrictStr | None = None
    json_compression: StrictStr | None = None
    bitmap: Any = None
    long_encoding: Any = None
    string_dictionary_encoding: Any = None
    segment_loader: Any = None
    column_format: Any = None


def warn_without_meaning(io: IOConfigEdge, tuning: TuningEdge, path: str, notes: Notes) -> None:
    """Tells of every such field that the spec states with another value than Druid's default."""
    for block, table, where in (
        (io, IO_WITHOUT_MEANING, f"{path}.ioConfig"),
        (tuning, TUNING_WITHOUT_MEANING, f"{path}.tuningConfig"),
    ):
        for name, reason in table.items():
            if _is_stated(block, name):
                notes.warn(f"{where}.{name} has no effect: {reason}")


def _is_stated(block: BaseModel, alias: str) -> bool:
    name = next(field for field, info in type(block).model_fields.items() if (info.alias or field) == alias)
    return name in block.model_fields_set and getattr(block, name) != type(block).model_fields[name].default


def read_index_spec(posted: Any, path: str, notes: Notes) -> Codecs:
    """The codecs that the indexSpec asks for; ours is zstd where it says nothing."""
    if posted is None:
        return Codecs()
    if not isinstance(posted, dict):
        notes.problem(path, posted, "must be an object", "leave it out, or name the compressions")
        return Codecs()
    block = read_block(IndexEdge, posted, path, notes)
    for name in INDEX_WITHOUT_MEANING:
        if posted.get(name) is not None:
            notes.warn(f"{path}.{name} has no effect: {_FILES}")
    fields = (
        ("dimensionCompression", block.dimension_compression),
        ("metricCompression", block.metric_compression),
        ("complexMetricCompression", block.complex_metric_compression),
        ("jsonCompression", block.json_compression),
    )
    dimensions, metrics, sketches, documents = (_codec(value, f"{path}.{name}", notes) for name, value in fields)
    return Codecs(dimensions or "zstd", metrics or "zstd", sketches, documents)


def _codec(value: str | None, path: str, notes: Notes) -> Codec | None:
    if value is None:
        return None
    found = _CODECS.get(value.lower())
    if found is None:
        notes.problem(path, value, "is no compression that is known here", f"use one of {', '.join(_CODECS)}")
    elif value.lower() == "lzf":
        notes.warn(f"{path}: lzf is stored as lz4, for Parquet has no lzf")
    return found
