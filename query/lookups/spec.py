"""Reads a lookup's posted configuration, with every fault at once and its JSON path (pure)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from query.errors import InvalidQuery
from query.sql.calendar_math import parse_span
from segments.civil import DAY_MS
from segments.errors import ServiceError

MAX_PAIRS = 2_000_000
"""More are a table to ingest: each worker that looks one up holds all pairs."""
_FILE_FORMATS = ("csv", "tsv", "customJson", "simpleJson")
_NOT_BUILT = {
    "kafka": "read the topic into a table and join with that",
    "loadingLookup": "use cachedNamespace, which holds all pairs",
    "pollingLookup": "use cachedNamespace with a pollPeriod",
}


class InvalidLookup(ServiceError):
    """A configuration that cannot be used; ``problems`` are all of them."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class MapSource:
    """Pairs that stand in the configuration."""

    pairs: dict[str, str]


@dataclass(frozen=True, slots=True)
class FileFormat:
    """How lines of a file become pairs.

    ``kind`` is csv, tsv, customJson or simpleJson (each line an object whose members are pairs). ``columns`` name
    the fields of a csv or tsv line, empty when the first line does; ``key`` and ``value`` are names of two.
    """

    kind: str
    key: str = ""
    value: str = ""
    columns: tuple[str, ...] = ()
    delimiter: str = ","
    skip_rows: int = 0
    has_header: bool = False


@dataclass(frozen=True, slots=True)
class FileSource:
    """The newest file at ``path`` (a file, or with ``pattern`` a folder whose fitting files are looked at).

    ``poll_ms`` is 0 when the file is read once.
    """

    path: str
    pattern: str
    format: FileFormat
    poll_ms: int


@dataclass(frozen=True, slots=True)
class TableSource:
    """A table of a database. ``time_column``: read again only when its largest value has changed.

    ``password`` is the text, or ``{"type": "environment", "variable": NAME}``.
    """

    url: str
    user: str
    password: Any
    table: str
    key: str
    value: str
    time_column: str
    filter: str
    poll_ms: int


Source = MapSource | FileSource | TableSource


@dataclass(frozen=True, slots=True)
class LookupSpec:
    """One lookup's configuration."""

    name: str
    version: str
    source: Source


def parse_lookup(name: str, container: Any) -> LookupSpec:
    """Reads ``{"version": ..., "lookupExtractorFactory": {...}}``; the factory alone is taken as well.

    Raises:
        InvalidLookup: with every fault that was found.
    """
    reader = _Reader()
    if not name.strip() or "/" in name or len(name) > 255 or not name.isprintable():
        reader.fault("name", name, "1 to 255 printable characters, none of them a slash")
    container = reader.object(container, "")
    factory, path = container.get("lookupExtractorFactory"), "lookupExtractorFactory"
    if factory is None and "type" in container:
        factory, path = container, ""
    source = reader.source(reader.object(factory, path), path)
    version = container.get("version")
    if version is not None and not isinstance(version, str | int):
        reader.fault("version", version, "a text such as v1")
    if reader.problems or source is None:
        raise InvalidLookup([f"lookup {name!r}: {problem}" for problem in reader.problems])
    return LookupSpec(name, "" if version is None else str(version), source)


@dataclass(slots=True)
class _Reader:
    problems: list[str] = field(default_factory=list)

    def fault(self, path: str, value: Any, wanted: str) -> None:
        shown = repr(value)
        self.problems.append(f"{path}: {shown[:100]} where {wanted} is needed")

    def object(self, value: Any, path: str) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        self.fault(path or "the configuration", value, "an object")
        return {}

    def text(self, part: dict[str, Any], path: str, name: str, default: str | None = None) -> str:
        value = part.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or not value:
            self.fault(f"{path}.{name}", value, "a text")
            return ""
        return value

    def period_ms(self, part: dict[str, Any], path: str) -> int:
        value = part.get("pollPeriod")
        if value is None or value in (0, "0"):
            return 0
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return max(value, 1_000)
        try:
            span = parse_span(str(value))
        except InvalidQuery:
            self.fault(f"{path}.pollPeriod", value, "a period such as PT10M, or milliseconds")
            return 0
        return max(span.months * 30 * DAY_MS + span.days * DAY_MS + span.fixed_ms, 1_000)

    def source(self, factory: dict[str, Any], path: str) -> Source | None:
        kind = factory.get("type")
        if kind == "map":
            return self._map(factory, path)
        if kind == "cachedNamespace":
            inner = f"{path}.extractionNamespace".lstrip(".")
            return self._namespace(self.object(factory.get("extractionNamespace"), inner), inner)
        if isinstance(kind, str) and kind in _NOT_BUILT:
            self.problems.append(f"{path}.type: {kind!r} is not supported; {_NOT_BUILT[kind]}".lstrip("."))
        elif factory:
            self.fault(f"{path}.type".lstrip("."), kind, "map or cachedNamespace")
        return None

    def _map(self, part: dict[str, Any], path: str) -> MapSource:
        pairs = self.object(part.get("map"), f"{path}.map".lstrip("."))
        wrong = [key for key, value in pairs.items() if not isinstance(value, str | int | float) or value is True]
        if wrong:
            self.fault(f"{path}.map.{wrong[0]}".lstrip("."), pairs[wrong[0]], "a text")
        if len(pairs) > MAX_PAIRS:
            self.fault(f"{path}.map".lstrip("."), f"{len(pairs)} pairs", f"at most {MAX_PAIRS}")
        return MapSource({key: str(value) for key, value in pairs.items()})

    def _namespace(self, part: dict[str, Any], path: str) -> Source | None:
        kind = part.get("type")
        if kind in ("map", "staticMap"):
            return self._map(part, path)
        if kind == "uri":
            return self._file(part, path)
        if kind == "jdbc":
            return self._table(part, path)
        if part:
            self.fault(f"{path}.type", kind, "uri, jdbc or staticMap")
        return None

    def _file(self, part: dict[str, Any], path: str) -> FileSource:
        name = "uriPrefix" if part.get("uriPrefix") is not None else "uri"
        if part.get("uri") is not None and part.get("uriPrefix") is not None:
            self.problems.append(f"{path}: uri and uriPrefix exclude each other")
        uri = self.text(part, path, name)
        match = re.fullmatch(r"(?:file:(?://)?)?(/.*)", uri)
        if uri and match is None:
            self.fault(f"{path}.{name}", uri, "the address of a local file, file:/path")
        pattern = self.text(part, path, "fileRegex", ".*") if name == "uriPrefix" else ""
        try:
            re.compile(pattern)
        except re.error as error:
            self.fault(f"{path}.fileRegex", pattern, f"a regular expression ({error})")
        described = self.object(part.get("namespaceParseSpec"), f"{path}.namespaceParseSpec")
        form = self._format(described, f"{path}.namespaceParseSpec")
        return FileSource(match[1] if match else "", pattern, form, self.period_ms(part, path))

    def _format(self, part: dict[str, Any], path: str) -> FileFormat:
        kind = part.get("format")
        if kind not in _FILE_FORMATS:
            if part:
                self.fault(f"{path}.format", kind, f"one of {', '.join(_FILE_FORMATS)}")
            return FileFormat("csv")
        if kind == "simpleJson":
            return FileFormat(kind)
        if kind == "customJson":
            key, value = self.text(part, path, "keyFieldName"), self.text(part, path, "valueFieldName")
            return FileFormat(kind, key, value)
        return self._separated(kind, part, path)

    def _separated(self, kind: str, part: dict[str, Any], path: str) -> FileFormat:
        columns = part.get("columns") or []
        has_header = part.get("hasHeaderRow") is True
        if not isinstance(columns, list) or not all(isinstance(column, str) for column in columns):
            self.fault(f"{path}.columns", columns, "a list of names")
            columns = []
        if not columns and not has_header:
            self.fault(f"{path}.columns", part.get("columns"), "names of the file's columns (or hasHeaderRow: true)")
        if len(columns) == 1:
            self.fault(f"{path}.columns", columns, "a key and a value")
        skip = part.get("skipHeaderRows", 0)
        if not isinstance(skip, int) or isinstance(skip, bool) or skip < 0:
            self.fault(f"{path}.skipHeaderRows", skip, "a number of lines")
            skip = 0
        names = []
        for name, at in (("keyColumn", 0), ("valueColumn", 1)):
            chosen = self.text(part, path, name, columns[at] if len(columns) > at else "")
            if columns and chosen not in columns:
                self.fault(f"{path}.{name}", chosen, f"one of {', '.join(columns)}")
            names.append(chosen)
        delimiter = self.text(part, path, "delimiter", "\t") if kind == "tsv" else ","
        if len(delimiter) != 1:
            self.fault(f"{path}.delimiter", delimiter, "one character")
        return FileFormat(kind, names[0], names[1], tuple(columns), delimiter, skip, has_header)

    def _table(self, part: dict[str, Any], path: str) -> TableSource:
        connector = self.object(part.get("connectorConfig"), f"{path}.connectorConfig")
        at = f"{path}.connectorConfig"
        url = self.text(connector, at, "connectURI")
        if url and not url.startswith(("jdbc:postgresql://", "jdbc:sqlite:")):
            self.fault(f"{at}.connectURI", _without_login(url), "jdbc:postgresql://host/database or jdbc:sqlite:/file")
        password = connector.get("password")
        if isinstance(password, dict):
            if password.get("type") != "environment" or not isinstance(password.get("variable"), str):
                self.problems.append(
                    f'{at}.password: a text, or {{"type": "environment", "variable": NAME}}, is needed'
                )
        elif password is not None and not isinstance(password, str):
            self.problems.append(f"{at}.password: a text is needed")
        return TableSource(
            url=url,
            user=self.text(connector, at, "user", ""),
            password=password,
            table=self.text(part, path, "table"),
            key=self.text(part, path, "keyColumn"),
            value=self.text(part, path, "valueColumn"),
            time_column=self.text(part, path, "tsColumn", ""),
            filter=self.text(part, path, "filter", ""),
            poll_ms=self.period_ms(part, path),
        )


def _without_login(url: str) -> str:
    return re.sub(r"//[^/@]*@", "//", url)
