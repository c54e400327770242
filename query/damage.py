"""Finds out whether a failed statement met a damaged local file of a segment, and what is wrong with it.

A file was proved when it came, but disks decay and people tidy up. What the engine says then is about the statement
("column not found") as often as about the file.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from segments.data_segment import DataSegment


def damage_of(path: Path, segment: DataSegment) -> str:
    """What is wrong with the file that should be this segment's, by its size and its end; empty when nothing is."""
    try:
        size = path.stat().st_size
        if size != segment.size_bytes:
            return f"has {size} bytes, {segment.size_bytes} were published"
        with pq.ParquetFile(path) as file:
            found = {field.name: field.type for field in file.schema_arrow}
    except FileNotFoundError:
        return "is gone"
    except (pa.ArrowException, OSError) as error:
        return f"cannot be read: {error}"
    for field in segment.schema.to_arrow():
        if field.name not in found:
            return f"lacks the column {field.name!r}"
        if found[field.name] != field.type:
            return f"has the column {field.name!r} as {found[field.name]}, not as {field.type}"
    return ""
