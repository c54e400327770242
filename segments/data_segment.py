"""The published record of one segment: what its rows are, where its file lies, and what it proves."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from segments.errors import InvalidSchema
from segments.identity import SegmentId
from segments.interval import Interval
from segments.schema import SegmentSchema

# Version of the file layout; see docs/reference/segment-format.md.
FORMAT_VERSION = 1

LoadSpec = dict[str, object]
# (stream partition, first offset, next offset to read): half-open.
OffsetRange = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class DataSegment:
    """One segment file and its proof.

    ``offsets``: the ranges of the sequence the rows were read from, one per stream partition, half-open.
    ``rows`` are stored rows, ``input_rows`` those before rollup. ``checksum`` is the SHA-256 of the file, in
    hex. ``min_time_ms`` and ``max_time_ms`` are both inclusive. Segments are equal if all fields are; their
    hash is their id's.
    """

    id: SegmentId
    rows: int
    size_bytes: int
    schema: SegmentSchema
    load_spec: LoadSpec = field(hash=False)
    min_time_ms: int = field(hash=False)
    max_time_ms: int = field(hash=False)
    offsets: tuple[OffsetRange, ...]
    checksum: str
    spec_version: int
    sequence: str
    input_rows: int

    @property
    def interval(self) -> Interval:
        return self.id.interval

    @property
    def multi_value_columns(self) -> frozenset[str]:
        return self.schema.multi_value_columns

    def to_json(self) -> dict[str, object]:
        """Everything, for the metadata store and for messages between processes."""
        return {
            "id": str(self.id),
            "rows": self.rows,
            "sizeBytes": self.size_bytes,
            "schema": self.schema.to_json(),
            "loadSpec": dict(self.load_spec),
            "minTimeMs": self.min_time_ms,
            "maxTimeMs": self.max_time_ms,
            "offsets": [list(offset_range) for offset_range in self.offsets],
            "checksum": self.checksum,
            "specVersion": self.spec_version,
            "sequence": self.sequence,
            "inputRows": self.input_rows,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> "DataSegment":
        """Reads what ``to_json`` wrote; unknown fields are ignored, so that older readers can follow.

        Raises:
            InvalidValue: a field is missing or malformed.
        """
        try:
            return cls(
                id=SegmentId.parse(str(value["id"])),
                rows=int(cast(int, value["rows"])),
                size_bytes=int(cast(int, value["sizeBytes"])),
                schema=SegmentSchema.from_json(cast(Mapping[str, object], value["schema"])),
                load_spec=dict(cast(Mapping[str, object], value["loadSpec"])),
                min_time_ms=int(cast(int, value["minTimeMs"])),
                max_time_ms=int(cast(int, value["maxTimeMs"])),
                offsets=offsets_from_json(value["offsets"]),
                checksum=str(value["checksum"]),
                spec_version=int(cast(int, value["specVersion"])),
                sequence=str(value["sequence"]),
                input_rows=int(cast(int, value["inputRows"])),
            )
        except (KeyError, TypeError) as error:
            raise InvalidSchema(f"segment record is missing or has a wrong {error}") from error

    def to_druid_json(self) -> dict[str, object]:
        """The payload that Druid's coordinator shows under ``metadata/segments``."""
        return {
            "dataSource": self.id.datasource,
            "interval": str(self.id.interval),
            "version": self.id.version,
            "loadSpec": dict(self.load_spec),
            "dimensions": ",".join(self.schema.dimensions),
            "metrics": ",".join(self.schema.metrics),
            "shardSpec": self.id.shard_spec.to_json(),
            "binaryVersion": FORMAT_VERSION,
            "size": self.size_bytes,
            "identifier": str(self.id),
        }


def offsets_from_json(value: object) -> tuple[OffsetRange, ...]:
    """Reads ``[[partition, start, end], ...]``.

    Raises:
        InvalidSchema: not such a list, or a range that ends before it starts.
    """
    ranges: list[OffsetRange] = []
    for item in value if isinstance(value, list) else [None]:
        if not isinstance(item, list | tuple) or len(item) != 3:
            raise InvalidSchema(f"offset range {item!r} is not [partition, start, end]")
        partition, start, end = item
        if not (isinstance(partition, int) and isinstance(start, int) and isinstance(end, int)):
            raise InvalidSchema(f"offset range {item!r} is not [partition, start, end]")
        if end < start:
            raise InvalidSchema(f"offset range of partition {partition} ends at {end} before it starts at {start}")
        ranges.append((partition, start, end))
    return tuple(ranges)
