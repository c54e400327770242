"""Decides what a segment file says about itself in its footer, and reads it back.

Every key is listed in docs/reference/segment-format.md.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from segments.data_segment import FORMAT_VERSION, OffsetRange, offsets_from_json
from segments.errors import InvalidValue, SegmentCorrupt
from segments.identity import SegmentId
from segments.parquet.codecs import Codecs
from segments.schema import SegmentSchema

PREFIX = "siltstone."


@dataclass(frozen=True, slots=True)
class SegmentFileMeta:
    """What the writer of a segment file knows before it sees a row; fields as in ``DataSegment``.

    ``codecs`` say how it is written; Parquet itself records that.
    """

    id: SegmentId
    offsets: tuple[OffsetRange, ...]
    sequence: str
    spec_version: int
    input_rows: int
    codecs: Codecs = field(default=Codecs(), compare=False)


@dataclass(frozen=True, slots=True)
class SegmentFooter:
    """All that a segment file says about itself; times are inclusive on both ends."""

    meta: SegmentFileMeta
    schema: SegmentSchema
    rows: int
    min_time_ms: int
    max_time_ms: int
    format_version: int = FORMAT_VERSION

    def to_metadata(self) -> dict[str, str]:
        """The footer's key-value pairs."""
        order = {"granularity": self.schema.sort_granularity.to_json(), "columns": list(self.schema.sort_order)}
        pairs: dict[str, object] = {
            "format_version": self.format_version,
            "segment_id": str(self.meta.id),
            "offsets": [list(offset_range) for offset_range in self.meta.offsets],
            "sequence": self.meta.sequence,
            "spec_version": self.meta.spec_version,
            "input_rows": self.meta.input_rows,
            "rows": self.rows,
            "min_time_ms": self.min_time_ms,
            "max_time_ms": self.max_time_ms,
            "sort_order": order,
            "schema": self.schema.to_json(),
        }
        return {
            PREFIX + key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for key, value in pairs.items()
        }

    @classmethod
    def from_metadata(cls, pairs: Mapping[bytes, bytes] | None, path: Path) -> "SegmentFooter":
        """Reads ``to_metadata``'s pairs.

        Raises:
            SegmentCorrupt: a key is missing or unreadable, or the file is of a newer format.
        """
        try:
            text = {key.decode(): value.decode() for key, value in (pairs or {}).items()}
            version = int(text[PREFIX + "format_version"])
            if version > FORMAT_VERSION:
                raise SegmentCorrupt(f"{path} has format {version}, newer than {FORMAT_VERSION}; update the service")
            meta = SegmentFileMeta(
                id=SegmentId.parse(text[PREFIX + "segment_id"]),
                offsets=offsets_from_json(json.loads(text[PREFIX + "offsets"])),
                sequence=text[PREFIX + "sequence"],
                spec_version=int(text[PREFIX + "spec_version"]),
                input_rows=int(text[PREFIX + "input_rows"]),
            )
            return cls(
                meta=meta,
                schema=SegmentSchema.from_json(json.loads(text[PREFIX + "schema"])),
                rows=int(text[PREFIX + "rows"]),
                min_time_ms=int(text[PREFIX + "min_time_ms"]),
                max_time_ms=int(text[PREFIX + "max_time_ms"]),
                format_version=version,
            )
        except (KeyError, ValueError, InvalidValue) as error:
            raise SegmentCorrupt(f"{path} has no readable segment footer: {error!r}") from error
