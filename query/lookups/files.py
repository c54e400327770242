"""Reads pairs from a local file: separated values or JSON, plain or gzip, below the folders that are allowed."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from query.lookups.spec import FileFormat, FileSource
from segments.errors import ServiceError

Pair = tuple[str, str]


class LookupUnreadable(ServiceError):
    """A lookup's source cannot be read now, or holds something else than pairs."""

    retryable = True


def newest_file(source: FileSource, roots: Sequence[Path]) -> Path:
    """The file to read: the one that is named, or the one of its folder that was changed last.

    Raises:
        LookupUnreadable: there is none, or it lies outside ``roots``.
    """
    path = Path(source.path)
    try:
        found = [path]
        if source.pattern:
            found = [one for one in path.iterdir() if one.is_file() and re.fullmatch(source.pattern, one.name)]
        found = [_allowed(one, roots) for one in found]
        if not found:
            raise LookupUnreadable(f"{path}: no file fits {source.pattern!r}")
        return max(found, key=lambda one: (one.stat().st_mtime_ns, one.name))
    except OSError as error:
        raise LookupUnreadable(f"{error.filename or path}: {error.strerror}") from error


def _allowed(path: Path, roots: Sequence[Path]) -> Path:
    real = path.resolve()
    if not any(real.is_relative_to(root.resolve()) for root in roots):
        listed = ", ".join(map(str, roots)) or "none"
        raise LookupUnreadable(
            f"{path} is outside the folders that lookups may read (query.lookup_roots: {listed}); add its folder there"
        )
    return real


def version_of(path: Path) -> str:
    """Changes whenever the file does."""
    stat = path.stat()
    return f"{path} {stat.st_mtime_ns} {stat.st_size}"


def read_pairs(path: Path, form: FileFormat) -> Iterator[Pair]:
    """The pairs of a file in their order; a later one of a key wins.

    Raises:
        LookupUnreadable: it cannot be read, or a line is not what ``form`` says; the message names the line.
    """
    try:
        with path.open("rb") as raw:
            opened: Any = gzip.GzipFile(fileobj=raw) if path.name.endswith(".gz") else raw
            with io.TextIOWrapper(opened, encoding="utf-8-sig", newline="") as lines:
                yield from _pairs(lines, form)
    except (OSError, UnicodeDecodeError, EOFError, csv.Error) as error:
        raise LookupUnreadable(f"{path}: {error}") from error
    except _BadLine as error:
        raise LookupUnreadable(f"{path}, line {error.number}: {error}") from error


class _BadLine(ValueError):
    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.number = number


def _pairs(lines: Iterable[str], form: FileFormat) -> Iterator[Pair]:
    return _json_pairs(lines, form) if form.kind.endswith("Json") else _separated_pairs(lines, form)


def _json_pairs(lines: Iterable[str], form: FileFormat) -> Iterator[Pair]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            document = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _BadLine(number, "not one JSON object a line") from error
        if not isinstance(document, dict):
            raise _BadLine(number, "not a JSON object")
        if form.kind == "simpleJson":
            yield from ((key, text) for key, value in document.items() if (text := _text(value)) is not None)
        else:
            key, value = _text(document.get(form.key)), _text(document.get(form.value))
            if key is None:
                raise _BadLine(number, f"no field {form.key!r}")
            if value is not None:
                yield key, value


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _separated_pairs(lines: Iterable[str], form: FileFormat) -> Iterator[Pair]:
    if form.kind == "tsv":
        rows = csv.reader(lines, delimiter=form.delimiter, quoting=csv.QUOTE_NONE)
    else:
        rows = csv.reader(lines, strict=True)
    skipped = itertools.islice(rows, form.skip_rows, None)
    columns = list(form.columns)
    if form.has_header:
        header = next(skipped, [])
        columns = columns or header
    key_name, value_name = form.key or (columns[:1] or [""])[0], form.value or (columns[1:2] or [""])[0]
    if key_name not in columns or value_name not in columns:
        raise _BadLine(rows.line_num, f"the header {columns!r} has no columns {key_name!r} and {value_name!r}")
    key_at, value_at = columns.index(key_name), columns.index(value_name)
    for row in skipped:
        if not row:
            continue
        if len(row) <= max(key_at, value_at):
            raise _BadLine(rows.line_num, f"{len(row)} fields where {len(columns)} are needed")
        yield row[key_at], row[value_at]
