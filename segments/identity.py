"""Spells and parses the names of data sources and segments; the only place that knows their text form."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NewType

from segments.civil import format_iso_ms, parse_iso_ms
from segments.errors import InvalidInterval, InvalidName
from segments.interval import Interval

DataSource = NewType("DataSource", str)

# Names become folder names, whose length file systems limit to 255 bytes.
DATA_SOURCE_BYTES_MAX = 255
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]|[^\S ]")


def data_source(name: str) -> DataSource:
    """Checks the name of a table by Druid's rules and types it.

    Raises:
        InvalidName: empty, longer than 255 bytes, begins with a dot, has a slash, a control character or
            blank space other than inner single spaces' own character.
    """
    if not isinstance(name, str) or not name:
        raise InvalidName("data source name is empty; give the table a name")
    if name != name.strip() or _UNPRINTABLE.search(name):
        raise InvalidName(f"data source {name!r} has blanks at an end, control characters, tabs or line breaks in it")
    if name.startswith(".") or "/" in name:
        raise InvalidName(f"data source {name!r} must not begin with a dot nor contain a slash")
    if len(name.encode()) > DATA_SOURCE_BYTES_MAX:
        raise InvalidName(f"data source {name[:40]!r}... is longer than {DATA_SOURCE_BYTES_MAX} bytes")
    return DataSource(name)


def check_version(version: str) -> str:
    """Returns a segment version if its text keeps segment ids unambiguous.

    Versions compare as text. One of digits only would read as a partition number, and an underscore would
    read as a separator.

    Raises:
        InvalidName: empty, digits only, or with an underscore, slash, blank or control character.
    """
    if not version or version.isdecimal() or re.search(r"[_/\s]", version) or _UNPRINTABLE.search(version):
        raise InvalidName(f"version {version!r} must have a character that is no digit, and no '_', '/' or blank")
    return version


@dataclass(frozen=True, slots=True)
class ShardSpec:
    """Druid's numbered shard spec; ``partitions`` is the core set's size, 0 for appended segments."""

    partition_num: int
    partitions: int = 0

    def to_json(self) -> dict[str, object]:
        return {"type": "numbered", "partitionNum": self.partition_num, "partitions": self.partitions}

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> "ShardSpec":
        """Reads types numbered, linear and none.

        Raises:
            InvalidName: another type, or numbers missing.
        """
        kind, number = value.get("type"), value.get("partitionNum", 0)
        partitions = value.get("partitions", 0)
        if kind not in ("numbered", "linear", "none") or not isinstance(number, int) or not isinstance(partitions, int):
            raise InvalidName(f"shard spec {dict(value)!r} is not a numbered one")
        return cls(number, partitions)


@dataclass(frozen=True, slots=True, order=True)
class SegmentId:
    """Names one segment for ever; ordered by data source, interval, version, partition number.

    Its text is Druid's: ``wiki_2015-09-12T00:00:00.000Z_2015-09-13T00:00:00.000Z_2026-01-01T00:00:00.000Z_3``,
    where partition 0 has no last part.
    """

    datasource: DataSource
    interval: Interval
    version: str
    partition_num: int = 0

    def __post_init__(self) -> None:
        data_source(self.datasource)
        check_version(self.version)
        if self.partition_num < 0:
            raise InvalidName(f"partition number {self.partition_num} is negative")

    def __str__(self) -> str:
        start, end = format_iso_ms(self.interval.start_ms), format_iso_ms(self.interval.end_ms)
        suffix = f"_{self.partition_num}" if self.partition_num else ""
        return f"{self.datasource}_{start}_{end}_{self.version}{suffix}"

    @classmethod
    def parse(cls, text: str) -> "SegmentId":
        """The one id that is spelt exactly so. Read from the right, since only the data source may hold '_'.

        Raises:
            InvalidName: no segment id is spelt so.
        """
        head, partition_num = text, 0
        before, _, last = text.rpartition("_")
        if last.isdecimal():
            head, partition_num = before, int(last)
        parts = head.rsplit("_", 3)
        if len(parts) != 4:
            raise InvalidName(f"{text!r} is not a segment id")
        name, start, end, version = parts
        try:
            interval = Interval(parse_iso_ms(start), parse_iso_ms(end))
        except InvalidInterval as error:
            raise InvalidName(f"{text!r} is not a segment id: {error}") from error
        parsed = cls(data_source(name), interval, version, partition_num)
        # Leading zeros, "_0" and other spellings of the same times would give one segment two names.
        if str(parsed) != text:
            raise InvalidName(f"{text!r} is not a segment id: it would be spelt {str(parsed)!r}")
        return parsed

    @property
    def shard_spec(self) -> ShardSpec:
        return ShardSpec(self.partition_num)
