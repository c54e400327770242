"""The rules of the input formats made of lines of text: csv, tsv, regex and lines."""

from __future__ import annotations

import re
from typing import Any, Final

from ingest.spec.edge_formats import CsvEdge, DelimitedEdge, FormatEdge, RegexEdge
from ingest.spec.formats import DelimitedFormat, LinesFormat, RegexFormat
from ingest.spec.model import InputFormat
from ingest.spec.notes import Notes, read_block

_JAVA_GROUP: Final = re.compile(r"\(\?<(?=[A-Za-z])")
# What Java's expressions have and those that end in linear time have not.
BEYOND_LINEAR: Final = re.compile(r"\(\?(?:[=!>]|<[=!])|\\[1-9]|\\k<|[*+?}]\+|&&\[|\\[GXRhHZ]")


def _csv(posted: dict[str, Any], path: str, notes: Notes) -> InputFormat | None:
    block = read_block(CsvEdge, posted, path, notes)
    return _delimited(block, ",", True, path, notes)


def _tsv(posted: dict[str, Any], path: str, notes: Notes) -> InputFormat | None:
    block = read_block(DelimitedEdge, posted, path, notes)
    if not block.delimiter:
        notes.problem(f"{path}.delimiter", "", "must not be empty", "name what stands between two fields")
    return _delimited(block, block.delimiter, False, path, notes)


def _delimited(block: CsvEdge | DelimitedEdge, delimiter: str, quoted: bool, path: str, notes: Notes) -> InputFormat:
    header = block.find_columns_from_header
    if header is None:
        header = bool(block.has_header_row)
    elif block.has_header_row is not None:
        rule = "is the older name of findColumnsFromHeader, which is set too"
        notes.problem(f"{path}.hasHeaderRow", block.has_header_row, rule, "remove it")
    if not block.columns and not header:
        cure = "list the columns, or set findColumnsFromHeader where every message begins with a header"
        notes.problem(f"{path}.columns", [], "is required", cure)
    _columns(block.columns, f"{path}.columns", notes)
    for at, name in enumerate(block.columns):
        if delimiter and delimiter in name:
            notes.problem(f"{path}.columns[{at}]", name, "holds the delimiter", "correct the name")
    if block.list_delimiter == delimiter or not block.list_delimiter:
        rule = "must be there and differ from the delimiter"
        notes.problem(f"{path}.listDelimiter", block.list_delimiter, rule, "choose another one")
    if block.skip_header_rows < 0:
        notes.problem(f"{path}.skipHeaderRows", block.skip_header_rows, "must be 0 or more", "correct the number")
    if header or block.skip_header_rows:
        notes.warn(f"{path}: header rows are looked for at the start of every message, for a stream has no files")
    if header and block.columns:
        notes.warn(f"{path}.columns has no effect beside findColumnsFromHeader")
    return DelimitedFormat(
        delimiter=delimiter,
        quoted=quoted,
        columns=() if header else tuple(block.columns),
        header=header,
        skip_rows=block.skip_header_rows,
        list_delimiter=block.list_delimiter,
        parse_numbers=block.try_parse_numbers,
    )


def _columns(names: list[str], path: str, notes: Notes) -> None:
    for at, name in enumerate(names):
        if name in names[:at]:
            notes.problem(f"{path}[{at}]", name, "is named twice", "give every column its own name")


def _lines(posted: dict[str, Any], path: str, notes: Notes) -> InputFormat | None:
    read_block(FormatEdge, posted, path, notes)
    return LinesFormat()


def _regex(posted: dict[str, Any], path: str, notes: Notes) -> InputFormat | None:
    block = read_block(RegexEdge, posted, path, notes)
    where = f"{path}.pattern"
    if not block.pattern:
        notes.problem(where, block.pattern, "is required", "write the pattern that a whole line must match")
        return None
    if BEYOND_LINEAR.search(block.pattern):
        rule = "look-around, back references and possessive parts are not supported: a line could take for ever"
        notes.problem(where, block.pattern, rule, "do without them")
        return None
    try:
        groups = re.compile(_JAVA_GROUP.sub("(?P<", block.pattern)).groups
    except (re.error, OverflowError, RecursionError) as error:
        notes.problem(where, block.pattern, f"is no regular expression that is known here: {error}", "correct it")
        return None
    if not groups:
        notes.problem(where, block.pattern, "has no group, so that no field would be read", "put fields into groups")
        return None
    columns = block.columns or [f"column_{at}" for at in range(1, groups + 1)]
    if len(columns) < groups:
        cure = "name every group, or make the others (?:...)"
        notes.problem(f"{path}.columns", block.columns, f"are fewer than the {groups} groups", cure)
    _columns(columns, f"{path}.columns", notes)
    if not block.list_delimiter:
        notes.problem(f"{path}.listDelimiter", "", "must not be empty", "leave it out")
    return RegexFormat(block.pattern, tuple(columns[:groups]), block.list_delimiter)


FORMATS: Final = {"csv": _csv, "tsv": _tsv, "lines": _lines, "regex": _regex}
"""The rule of each format by its type."""
