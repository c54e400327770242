"""The rules of a spec's inputFormat: which formats there are, JSON's own, and what Kafka's wraps around others."""

from __future__ import annotations

import codecs
import importlib.util
from collections.abc import Callable
from typing import Any, Final

from ingest.spec.edge import FlattenEdge, FlattenFieldEdge
from ingest.spec.edge_formats import FormatEdge, HeaderFilterEdge, HeaderFormatEdge, JsonEdge, KafkaEdge
from ingest.spec.formats import KafkaFormat
from ingest.spec.jq_safety import UnsafeProgram
from ingest.spec.json_path import Program, Step, UnsupportedPath, parse_path
from ingest.spec.json_path_program import compiled
from ingest.spec.model import Documents, FlattenField, HeaderFilter, InputFormat, JsonFormat
from ingest.spec.notes import PLACEHOLDER, Notes, read_block
from segments.schema import RESERVED_PREFIX, is_column_name

REFUSED: Final = {
    "javascript": ("it would run a program inside the tasks", "use regex, or compute the fields in transformSpec"),
    "parquet": ("a Parquet file needs random access, which a message of a stream does not give", "send Avro or JSON"),
    "orc": ("an ORC file needs random access, which a message of a stream does not give", "send Avro or JSON"),
    "thrift": ("it needs the sender's compiled Java classes", "send Avro, Protobuf or JSON"),
    "kinesis": ("it reads Kinesis records", 'use "kafka"'),
    "sequencefile": ("it reads Hadoop files", "send Avro or JSON"),
}
"""Formats of Druid's that are not read, with the reason and the cure."""

FEATURES: Final = {
    "ALLOW_COMMENTS", "ALLOW_JAVA_COMMENTS", "ALLOW_YAML_COMMENTS", "ALLOW_SINGLE_QUOTES",
    "ALLOW_UNQUOTED_FIELD_NAMES", "ALLOW_UNQUOTED_CONTROL_CHARS", "ALLOW_UNESCAPED_CONTROL_CHARS",
    "ALLOW_BACKSLASH_ESCAPING_ANY_CHARACTER", "ALLOW_NUMERIC_LEADING_ZEROS", "ALLOW_LEADING_ZEROS_FOR_NUMBERS",
    "ALLOW_LEADING_PLUS_SIGN_FOR_NUMBERS", "ALLOW_LEADING_DECIMAL_POINT_FOR_NUMBERS",
    "ALLOW_TRAILING_DECIMAL_POINT_FOR_NUMBERS", "ALLOW_NON_NUMERIC_NUMBERS", "ALLOW_MISSING_VALUES",
    "ALLOW_TRAILING_COMMA",
}  # fmt: skip
"""What Jackson may be told to take beside JSON."""
_WITHOUT_MEANING: Final = {
    "AUTO_CLOSE_SOURCE", "IGNORE_UNDEFINED", "INCLUDE_SOURCE_IN_LOCATION", "USE_FAST_DOUBLE_PARSER",
    "USE_FAST_BIG_NUMBER_PARSER", "CLEAR_CURRENT_TOKEN_ON_CLOSE",
}  # fmt: skip

FormatRule = Callable[[dict[str, Any], str, Notes], InputFormat | None]


def read_input_format(
    posted: dict[str, Any] | None, path: str, notes: Notes, topic: str = "", *, wrapped: bool = False
) -> InputFormat | None:
    """The format, or None with its faults noted. ``wrapped``: it stands inside a ``kafka`` format."""
    from ingest.spec import rules_binary, rules_text

    rules: dict[str, FormatRule] = {"json": _json, **rules_text.FORMATS, **rules_binary.FORMATS}
    if posted is None:
        notes.problem(path, None, "is required", 'set {"type": "json"}')
        return None
    kind = posted.get("type")
    if kind == "kafka" and not wrapped:
        return _kafka(posted, path, notes, topic)
    if isinstance(kind, str) and kind in rules:
        return rules[kind](posted, path, notes)
    known = ", ".join([*rules, *([] if wrapped else ["kafka"])])
    if isinstance(kind, str) and kind in REFUSED:
        why, cure = REFUSED[kind]
        notes.problem(f"{path}.type", kind, f"is not supported: {why}", cure)
    else:
        read_block(FormatEdge, {"type": kind}, path, notes)
        if kind is None or isinstance(kind, str):
            notes.refused(f"{path}.type", kind, "this input format", f"use one of {known}")
    return None


def needs(module: str, extra: str, where: str, kind: str | None, notes: Notes) -> None:
    """Notes that a library is not installed, with the line that installs it."""
    try:
        found = importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        found = False
    if not found:
        notes.problem(where, kind, f"needs the library {module}", f"pip install 'siltstone[{extra}]'")


# ---------------------------------------------------------------- JSON


def _json(posted: dict[str, Any], path: str, notes: Notes) -> InputFormat | None:
    block = read_block(JsonEdge, posted, path, notes)
    if block.keep_null_columns:
        notes.warn(f"{path}.keepNullColumns has no effect: a field that was always null makes no column")
    if block.assume_newline_delimited and block.use_json_node_reader:
        notes.problem(path, True, "assumeNewlineDelimited and useJsonNodeReader exclude each other", "set one of them")
    fields, discover = read_flatten(block.flatten_spec, f"{path}.flattenSpec", notes)
    return JsonFormat(fields, discover, _documents(block), _features(block, f"{path}.featureSpec", notes))


def _documents(block: JsonEdge) -> Documents:
    if block.assume_newline_delimited:
        return Documents.LINES
    return Documents.PREFIX if block.use_json_node_reader else Documents.WHOLE


def _features(block: JsonEdge, path: str, notes: Notes) -> frozenset[str]:
    asked = {name for name, wanted in (block.feature_spec or {}).items() if wanted}
    for name in sorted(asked & _WITHOUT_MEANING):
        notes.warn(f"{path}.{name} has no effect: it tunes Java's parser")
    for name in sorted(asked - FEATURES - _WITHOUT_MEANING):
        if name == "STRICT_DUPLICATE_DETECTION":
            notes.problem(f"{path}.{name}", True, "is not supported: the last of several equal keys wins", "remove it")
        else:
            notes.problem(f"{path}.{name}", True, "is no feature of Jackson that is known here", "correct the name")
    return frozenset(asked & FEATURES)


def read_flatten(block: FlattenEdge | None, path: str, notes: Notes) -> tuple[tuple[FlattenField, ...], bool]:
    """The fields of a flattenSpec, and whether others are discovered."""
    flatten = block or FlattenEdge()
    fields: list[FlattenField] = []
    for at, item in enumerate(flatten.fields):
        where = f"{path}.fields[{at}]"
        field = _field(item, where, notes)
        if field is None:
            continue
        if field.name in [known.name for known in fields]:
            notes.problem(f"{where}.name", field.name, "is defined twice", "give every field its own name")
        fields.append(field)
    return tuple(fields), flatten.use_field_discovery


def _field(block: FlattenFieldEdge, path: str, notes: Notes) -> FlattenField | None:
    if block.name == PLACEHOLDER and notes.problems:
        return None
    if block.name is None or not is_column_name(block.name):
        rule = f"is required, holds no NUL character and does not begin with {RESERVED_PREFIX}"
        notes.problem(f"{path}.name", block.name, rule, "name the field")
        return None
    steps: tuple[Step, ...]
    if block.type == "root":
        # As in Druid a root field may carry the source field's name in expr.
        steps = (block.expr or block.name,)
    elif block.type == "tree":
        steps = tuple(block.nodes or ())
        if not steps:
            notes.problem(f"{path}.nodes", block.nodes, "is required", "list the names that lead to the field")
    elif block.type == "path":
        try:
            steps = parse_path(block.expr or "")
        except UnsupportedPath as error:
            cure = "correct it, as in $.a.b[0]['c'], $..c or $.a[?(@.b > 1)].c"
            notes.problem(f"{path}.expr", block.expr, f"this path cannot be read: {error}", cure)
            return None
    elif block.type == "jq":
        if not _is_program(block.expr or "", f"{path}", notes):
            return None
        steps = (Program(block.expr or ""),)
    else:
        notes.refused(f"{path}.type", block.type, "this kind of flattening", "use root, path, tree or jq")
        return None
    return FlattenField(block.name, steps)


def _is_program(text: str, path: str, notes: Notes) -> bool:
    """Notes a missing library, or a text that is no jq program."""
    before = len(notes.problems)
    needs("jq", "jq", f"{path}.type", "jq", notes)
    if len(notes.problems) == before:
        try:
            compiled(text)
        except UnsafeProgram as error:
            notes.problem(f"{path}.expr", text, "is a jq program that might stall a task", str(error))
        except ValueError as error:
            notes.problem(f"{path}.expr", text, f"is no jq program: {str(error)[:200]}", "correct it, as in .a.b | add")
    return len(notes.problems) == before


# ---------------------------------------------------------------- Kafka's records


def _kafka(posted: dict[str, Any], path: str, notes: Notes, topic: str) -> InputFormat | None:
    block = read_block(KafkaEdge, posted, path, notes)
    value = read_input_format(block.value_format, f"{path}.valueFormat", notes, wrapped=True)
    key = None
    if block.key_format is not None:
        key = read_input_format(block.key_format, f"{path}.keyFormat", notes, wrapped=True)
    encoding = None
    if block.header_format is not None:
        header = read_block(HeaderFormatEdge, block.header_format, f"{path}.headerFormat", notes)
        if header.type != "string":
            notes.refused(f"{path}.headerFormat.type", header.type, "this header format", 'use "string"')
        encoding = read_encoding(header.encoding, f"{path}.headerFormat.encoding", notes)
    for name, column in (
        ("keyColumnName", block.key_column_name),
        ("timestampColumnName", block.timestamp_column_name),
        ("topicColumnName", block.topic_column_name),
    ):
        if not is_column_name(column):
            notes.problem(f"{path}.{name}", column, "is no name of a column", "name the column")
    if value is None:
        return None
    return KafkaFormat(
        value=value,
        key=key,
        header_encoding=encoding,
        header_prefix=block.header_column_prefix,
        key_column=block.key_column_name,
        timestamp_column=block.timestamp_column_name,
        topic_column=block.topic_column_name,
        topic=topic,
    )


def read_encoding(name: str, path: str, notes: Notes) -> str:
    """Python's name of a Java charset."""
    try:
        found = codecs.lookup(name)
        "".encode(name)  # refuses codecs that are no encodings of text
    except (LookupError, ValueError):
        notes.problem(path, name, "is no encoding that is known here", "use UTF-8, UTF-16, ISO-8859-1 or US-ASCII")
        return "utf-8"
    return found.name


def read_header_filter(posted: dict[str, Any] | None, path: str, notes: Notes) -> HeaderFilter | None:
    """``headerBasedFilterConfig``: as in Druid an ``in`` filter over one header."""
    if posted is None:
        return None
    block = read_block(HeaderFilterEdge, posted, path, notes)
    encoding = read_encoding(block.encoding, f"{path}.encoding", notes)
    found = block.filter or {}
    name, values = found.get("dimension"), found.get("values")
    if found.get("type") != "in":
        notes.refused(f"{path}.filter.type", found.get("type"), "this filter over headers", 'use "in"')
        return None
    if not isinstance(name, str) or not name:
        notes.problem(f"{path}.filter.dimension", name, "is required", "name the header")
        return None
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        notes.problem(f"{path}.filter.values", values, "must be a list of texts", "list the values to keep")
        return None
    return HeaderFilter(name, frozenset(values), encoding)
