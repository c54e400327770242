"""Shows what ingestion would make of some records: Druid's sampler, by the very way that rows of a task take.

Nothing is kept and nothing is decided here; a sample is for people who write a spec.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa

from ingest.appenderator.decoding import DecodedBatch, Fate, RowDecoder
from ingest.appenderator.decoding.assembly import aggregations
from ingest.appenderator.decoding.formats.reader import DocumentReader, document_reader
from ingest.appenderator.decoding.records import messages_of
from ingest.appenderator.decoding.unreadable import Unreadable
from ingest.appenderator.rolling import rolled_up
from ingest.errors import SpecError, SpecProblem
from ingest.spec import SupervisorSpec, parse_supervisor_spec
from ingest.spec.model import Discovery
from ingest.stream.schemas import SchemaSources
from ingest.stream.supplier import Poll
from segments.coercion import spelt
from segments.rollup import TIME_OF_PREFIX
from segments.schema import TIME_COLUMN, ColumnSpec, SegmentSchema

ROWS_DEFAULT, ROWS_MAX = 500, 5_000
TIMEOUT_DEFAULT_MS, TIMEOUT_MAX_MS = 15_000, 60_000
HEADS_MAX = 64 * 2**20
"""Characters that the lines before the data may make, standing before each of its lines."""

Reader = Callable[[dict[str, Any], int, int], list[Poll]]
"""Reads a topic: the spec as posted for a supervisor, how many records at most, and for how long, in ms."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a request asks for: a spec, and the records or where they are."""

    spec: SupervisorSpec
    lines: tuple[bytes, ...] | None
    rows: int
    timeout_ms: int


def sample(posted: Any, read: Reader, now_ms: int, schemas: SchemaSources | None = None) -> dict[str, Any]:
    """Druid's answer to a sampler request: per record what came in, the row it makes, and what is wrong with it.

    ``now_ms`` is the time from which rejection periods count.

    Raises:
        SpecError: the spec cannot be used; with every fault.
        StreamError: the topic cannot be read.
    """
    asked = _asked(posted)
    if asked.lines is None:
        polls = read(dict(asked.spec.posted), asked.rows, asked.timeout_ms)
    else:
        lines = list(asked.lines[: asked.rows])
        polls = [Poll(0, 0, len(lines), range(len(lines)), list(lines), [])]
    decoder = RowDecoder(asked.spec.data_schema, asked.spec.io.rejection, schemas=schemas)
    batch = decoder.decode(polls, now_ms)
    reader = document_reader(asked.spec.data_schema.input_format, schemas)
    inputs = [_documents(reader, message) for message in messages_of(polls, asked.spec.data_schema.input_format)]
    return _answer(asked.spec, batch, inputs)


def _asked(posted: Any) -> _Asked:
    document = posted if isinstance(posted, dict) else {}
    spec = document.get("spec")
    if not isinstance(spec, dict):
        raise _fault("$.spec", spec, "an object with dataSchema and ioConfig is needed")
    posted_io = spec.get("ioConfig") or {}
    if not isinstance(posted_io, dict):
        raise _fault("$.spec.ioConfig", posted_io, "write an object")
    io = dict(posted_io)
    source = io.pop("inputSource", None)
    config = document.get("samplerConfig") or {}
    rows = min(_whole(config, "numRows", ROWS_DEFAULT), ROWS_MAX)
    lines = None
    if source is not None or document.get("type") not in (None, "kafka"):
        if not isinstance(source, dict) or source.get("type") != "inline" or not isinstance(source.get("data"), str):
            raise _fault("$.spec.ioConfig.inputSource", source, 'use {"type": "inline", "data": "…"}, or type kafka')
        io = {"topic": "inline", "inputFormat": io.get("inputFormat"), "consumerProperties": {"bootstrap.servers": "-"}}
        form = io["inputFormat"]
        lines = _messages(source["data"], form if isinstance(form, dict) else {}, rows)
    parsed, _ = parse_supervisor_spec({"type": "kafka", "spec": {"dataSchema": spec.get("dataSchema"), "ioConfig": io}})
    return _Asked(parsed, lines, rows, min(_whole(config, "timeoutMs", TIMEOUT_DEFAULT_MS), TIMEOUT_MAX_MS))


def _fault(path: str, value: object, cure: str) -> SpecError:
    return SpecError([SpecProblem(path, value, "cannot be sampled", cure)])


def _whole(config: Any, name: str, default: int) -> int:
    value = config.get(name) if isinstance(config, dict) else None
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise _fault(f"$.samplerConfig.{name}", value, "use a number of 1 or more")
    return value


def _messages(data: str, form: Mapping[str, Any], rows: int) -> tuple[bytes, ...]:
    """One message a line that is not blank. Lines before the data stand before each, where the format reads them."""
    lines = [line for line in data.splitlines() if line.strip()]
    skipped = form.get("skipHeaderRows")
    heads = (skipped if isinstance(skipped, int) else 0) + (form.get("findColumnsFromHeader") is True)
    head = "".join(f"{line}\n" for line in lines[:heads])
    data_lines = lines[heads : heads + rows]
    if len(head) * len(data_lines) > HEADS_MAX:
        raise _fault("$.spec.ioConfig.inputFormat.skipHeaderRows", skipped, "sample fewer rows, or shorter headers")
    return tuple(f"{head}{line}".encode() for line in data_lines)


def _documents(reader: DocumentReader, message: Any) -> list[Any]:
    """What came in: the objects of a message, as its format reads them."""
    try:
        found = reader.documents(message)
    except Unreadable:
        return []
    return [one for one in found or () if isinstance(one, dict)]


def _as_json(value: Any) -> Any:
    """A value as it came, but what an answer's JSON cannot carry: half of a surrogate pair, a number beyond 64 bits
    and bytes become texts."""
    if isinstance(value, dict):
        return {_as_json(str(key)): _as_json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(inner) for inner in value]
    if isinstance(value, str):
        return spelt(value)
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return str(value)
    return value if value is None or isinstance(value, int | float) else str(value)


def _answer(spec: SupervisorSpec, batch: DecodedBatch, inputs: Sequence[list[Any]]) -> dict[str, Any]:
    wrong = {int(problem.offset): problem for problem in batch.problems}
    columns = [column for column in batch.schema.columns if not column.name.startswith(TIME_OF_PREFIX)]
    metrics = {column.name for column in columns if column.kind == "metric"}
    raw = _as_they_came(spec, columns)
    data: list[dict[str, Any]] = []
    read = indexed = 0
    rows_of = _rows_by_message(batch)
    groups: dict[tuple[str, ...], list[int]] = {}
    places: dict[tuple[str, ...], dict[str, Any]] = {}
    for at, fate in enumerate(batch.fates.tolist()):
        if fate in (Fate.FILTERED, Fate.TOMBSTONE, Fate.EARLY, Fate.LATE):
            continue
        problem = wrong.get(int(batch.offsets[at]))
        documents, rows = inputs[at], rows_of.get(at, [])
        for position in range(max(len(documents), len(rows), 1)):
            read += 1
            entry: dict[str, Any] = {"input": _as_json(documents[position])} if position < len(documents) else {}
            row = rows[position] if position < len(rows) else None
            if row is not None:
                is_bad = problem is not None and not problem.unparseable
                indexed += not is_bad
                key = _key(batch.rows, row, batch.schema) if spec.data_schema.rollup and not is_bad else (str(row),)
                if key in groups:
                    groups[key].append(row)
                    continue
                groups[key], places[key] = [row], entry
            if row is None or problem is not None:
                entry |= {"unparseable": True, "error": "; ".join(problem.details) if problem else "not readable"}
            data.append(entry)
    functions = aggregations(spec.data_schema)
    for key, members in groups.items():
        rows_table = pa.Table.from_batches([batch.rows]).take(pa.array(members))
        rolled = rolled_up(rows_table, batch.schema, functions) if len(members) > 1 else rows_table
        shown = rolled.slice(0, 1).to_pylist()[0]
        places[key]["parsed"] = {c.name: _shown(c, shown[c.name]) for c in columns} | {
            name: places[key].get("input", {}).get(name) for name in raw
        }
    types = [{"name": column.name, "type": column.told_type} for column in columns]
    names = [column.name for column in columns if column.name != TIME_COLUMN]
    return {
        "numRowsRead": read,
        "numRowsIndexed": indexed,
        "logicalDimensions": [name for name in names if name not in metrics],
        "physicalDimensions": [name for name in names if name not in metrics],
        "logicalSegmentSchema": types,
        "data": data,
    }


def _as_they_came(spec: SupervisorSpec, columns: Sequence[ColumnSpec]) -> set[str]:
    """Columns whose type follows from the values: Druid's sampler shows these as they came."""
    schema = spec.data_schema
    named = {dimension.name for dimension in schema.dimensions}
    found = {dimension.name for dimension in schema.dimensions if dimension.type == "auto" and not dimension.cast_to}
    if schema.discovery is Discovery.TYPED:
        found |= {column.name for column in columns if column.kind == "dimension" and column.name not in named}
    return found


def _rows_by_message(batch: DecodedBatch) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for row, message in enumerate(batch.row_message.tolist()):
        found.setdefault(message, []).append(row)
    return found


def _key(rows: pa.RecordBatch, row: int, schema: SegmentSchema) -> tuple[str, ...]:
    """What rows that roll up into one have in common."""
    names = [name for name in (TIME_COLUMN, *schema.dimensions) if name in rows.schema.names]
    return tuple(repr(rows.column(name)[row].as_py()) for name in names)


def _shown(column: ColumnSpec, value: Any) -> Any:
    """A value as JSON has it: one value of a list of one, nested data as itself, sketches left out."""
    if isinstance(value, bytes):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if column.is_json and isinstance(value, str):
        return orjson.loads(value)
    if column.is_list and isinstance(value, list) and len(value) < 2:
        return value[0] if value else None
    return value
