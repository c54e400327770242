"""Reads the older form of a dataSchema, whose ``parser`` says what timestampSpec, dimensionsSpec and inputFormat do.

Works on posted JSON before it is read, so that one set of rules judges both forms.
"""

from __future__ import annotations

from typing import Any, Final

from ingest.spec.notes import Notes

_MOVED: Final = ("timestampSpec", "dimensionsSpec")
_TEXT_FIELDS: Final = (
    "flattenSpec",
    "columns",
    "delimiter",
    "listDelimiter",
    "hasHeaderRow",
    "skipHeaderRows",
    "pattern",
)
_FORMATS: Final = {"json": "json", "csv": "csv", "tsv": "tsv", "regex": "regex"}
_KNOWN: Final = frozenset({*_MOVED, *_TEXT_FIELDS, "format"})
_CURE: Final = "use timestampSpec, dimensionsSpec and ioConfig.inputFormat"


def without_parser(configs: dict[str, Any], path: str, notes: Notes) -> dict[str, Any]:
    """The configs in the present form; what is noted later about a moved block carries the path where it was posted."""
    schema = configs.get("dataSchema")
    if not isinstance(schema, dict) or schema.get("parser") is None:
        return configs
    parser, where = schema["parser"], f"{path}.dataSchema.parser"
    rest = {name: value for name, value in schema.items() if name != "parser"}
    io = configs.get("ioConfig")
    io = dict(io) if isinstance(io, dict) else io
    if not isinstance(parser, dict) or not isinstance(parser.get("parseSpec"), dict):
        notes.problem(where, parser, "must be an object with a parseSpec", _CURE)
        return {**configs, "dataSchema": rest}
    spec = parser["parseSpec"]
    for name in _MOVED:
        if rest.get(name) is not None:
            notes.problem(f"{where}.parseSpec.{name}", spec.get(name), "is also a field of dataSchema", "keep one")
        elif spec.get(name) is not None:
            rest[name] = spec[name]
            notes.move(f"{path}.dataSchema.{name}", f"{where}.parseSpec.{name}")
    _warn_of_unknown(parser, where, notes)
    form = _format_of(parser, spec, where, notes)
    if isinstance(io, dict) and io.get("inputFormat") is not None:
        notes.problem(where, parser.get("type"), "is also said by ioConfig.inputFormat", "keep one")
    elif isinstance(io, dict) and form is not None:
        io["inputFormat"] = form
        notes.move(f"{path}.ioConfig.inputFormat", f"{where}.parseSpec")
    elif isinstance(io, dict):
        # Its fault is noted already; what stands in its place only keeps the other rules going.
        io["inputFormat"] = {"type": "json"}
    return {**configs, "dataSchema": rest, "ioConfig": io}


def _warn_of_unknown(parser: dict[str, Any], where: str, notes: Notes) -> None:
    known = {"type", "parseSpec", "encoding", "avroBytesDecoder", "protoBytesDecoder", "descriptor", "protoMessageType"}
    for name in parser:
        if name not in known | {"binaryAsString", "extractUnionsByType"}:
            notes.warn(f"{where}.{name} is not known and has no effect")
    for name in parser["parseSpec"]:
        if name not in _KNOWN:
            notes.warn(f"{where}.parseSpec.{name} is not known and has no effect")


def _format_of(parser: dict[str, Any], spec: dict[str, Any], where: str, notes: Notes) -> dict[str, Any] | None:
    kind = parser.get("type", "string")
    if kind in ("string", "hadoopyString", "map"):
        return _text_format(parser, spec, where, notes)
    flatten = {"flattenSpec": spec["flattenSpec"]} if spec.get("flattenSpec") is not None else {}
    if kind == "avro_stream":
        names = ("avroBytesDecoder", "binaryAsString", "extractUnionsByType")
        return {"type": "avro_stream", **{name: parser[name] for name in names if name in parser}, **flatten}
    if kind == "protobuf":
        decoder = parser.get("protoBytesDecoder")
        if decoder is None and "descriptor" in parser:
            decoder = {"type": "file", "descriptor": parser["descriptor"]}
            decoder |= {"protoMessageType": parser["protoMessageType"]} if "protoMessageType" in parser else {}
        return {"type": "protobuf", "protoBytesDecoder": decoder, **flatten}
    notes.refused(f"{where}.type", kind, "this parser", "use string, avro_stream or protobuf")
    return None


def _text_format(parser: dict[str, Any], spec: dict[str, Any], where: str, notes: Notes) -> dict[str, Any] | None:
    encoding = parser.get("encoding")
    if encoding is not None and str(encoding).upper().replace("-", "") not in ("UTF8", "USASCII"):
        notes.refused(f"{where}.encoding", encoding, "another encoding", "send UTF-8")
    found = spec.get("format")
    if not isinstance(found, str) or found not in _FORMATS:
        notes.refused(f"{where}.parseSpec.format", found, "this format", f"use one of {', '.join(_FORMATS)}")
        return None
    return {"type": _FORMATS[found], **{name: spec[name] for name in _TEXT_FIELDS if spec.get(name) is not None}}
