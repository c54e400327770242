"""Specs of older versions of Druid are read as their present form is, and what was posted is kept."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ingest.errors import SpecError
from ingest.spec import SupervisorSpec, parse_supervisor_spec

TIME = {"column": "t", "format": "millis"}
DIMENSIONS = {"dimensions": ["a", {"type": "long", "name": "n"}]}
FLATTEN = {"useFieldDiscovery": True, "fields": [{"type": "path", "name": "c", "expr": "$.x.c"}]}
SCHEMA = {"type": "record", "name": "R", "fields": [{"name": "t", "type": "long"}]}
DECODER = {"type": "schema_inline", "schema": SCHEMA}
IO = {"topic": "clicks", "consumerProperties": {"bootstrap.servers": "localhost:9092"}}

# Each older parser beside the inputFormat that says the same.
SAME: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "json": ({"type": "string", "parseSpec": {"format": "json"}}, {"type": "json"}),
    "json without a type": ({"parseSpec": {"format": "json"}}, {"type": "json"}),
    "flattened json": (
        {"type": "string", "parseSpec": {"format": "json", "flattenSpec": FLATTEN}},
        {"type": "json", "flattenSpec": FLATTEN},
    ),
    "csv": (
        {"type": "string", "parseSpec": {"format": "csv", "columns": ["t", "a"], "listDelimiter": "|"}},
        {"type": "csv", "columns": ["t", "a"], "listDelimiter": "|"},
    ),
    "csv with header": (
        {"type": "string", "parseSpec": {"format": "csv", "hasHeaderRow": True, "skipHeaderRows": "1"}},
        {"type": "csv", "findColumnsFromHeader": True, "skipHeaderRows": 1},
    ),
    "tsv": (
        {"type": "string", "parseSpec": {"format": "tsv", "columns": ["t", "a"], "delimiter": ";"}},
        {"type": "tsv", "columns": ["t", "a"], "delimiter": ";"},
    ),
    "regex": (
        {"type": "string", "parseSpec": {"format": "regex", "pattern": "(.*) (.*)", "columns": ["t", "a"]}},
        {"type": "regex", "pattern": "(.*) (.*)", "columns": ["t", "a"]},
    ),
    "avro": (
        {"type": "avro_stream", "avroBytesDecoder": DECODER, "parseSpec": {"format": "avro", "flattenSpec": FLATTEN}},
        {"type": "avro_stream", "avroBytesDecoder": DECODER, "flattenSpec": FLATTEN},
    ),
    "protobuf": (
        {"type": "protobuf", "descriptor": "/d.desc", "protoMessageType": "M", "parseSpec": {"format": "json"}},
        {"type": "protobuf", "protoBytesDecoder": {"type": "file", "descriptor": "/d.desc", "protoMessageType": "M"}},
    ),
    "protobuf with a decoder": (
        {
            "type": "protobuf",
            "protoBytesDecoder": {"type": "schema_registry", "url": "http://r:8081"},
            "parseSpec": {"format": "json"},
        },
        {"type": "protobuf", "protoBytesDecoder": {"type": "schema_registry", "url": "http://r:8081"}},
    ),
}


def older(parser: dict[str, Any]) -> dict[str, Any]:
    """A spec with everything in its parser, flat as specs were."""
    parser = copy.deepcopy(parser)
    parser["parseSpec"] |= {"timestampSpec": TIME, "dimensionsSpec": DIMENSIONS}
    return {"type": "kafka", "dataSchema": {"dataSource": "clicks", "parser": parser}, "ioConfig": IO}


def present(form: dict[str, Any]) -> dict[str, Any]:
    schema = {"dataSource": "clicks", "timestampSpec": TIME, "dimensionsSpec": DIMENSIONS}
    return {"type": "kafka", "spec": {"dataSchema": schema, "ioConfig": {**IO, "inputFormat": form}}}


@pytest.mark.parametrize("name", SAME)
def test_a_parser_means_what_its_inputformat_means(name: str) -> None:
    parser, form = SAME[name]
    posted = older(parser)
    before = copy.deepcopy(posted)
    spec, warnings = parse_supervisor_spec(posted)
    same: SupervisorSpec = parse_supervisor_spec(present(form))[0]
    assert (spec.data_schema, spec.io, spec.tuning) == (same.data_schema, same.io, same.tuning)
    assert spec.posted == before == posted, "what was posted is kept to the letter"
    assert not [text for text in warnings if "not known" in text]


def paths(posted: dict[str, Any]) -> set[str]:
    with pytest.raises(SpecError) as caught:
        parse_supervisor_spec(posted)
    return {problem.path for problem in caught.value.problems}


def test_faults_are_told_where_they_were_posted() -> None:
    posted = older({"type": "string", "parseSpec": {"format": "csv", "columns": ["a", "a"], "listDelimiter": ","}})
    spec = posted["dataSchema"]["parser"]["parseSpec"]
    spec["timestampSpec"] = {"column": "t", "format": "qq"}
    spec["dimensionsSpec"] = {"dimensions": [{"type": "uuid", "name": "u"}]}
    where = "$.dataSchema.parser.parseSpec"
    assert paths(posted) == {
        f"{where}.timestampSpec.format",
        f"{where}.dimensionsSpec.dimensions[0].type",
        f"{where}.columns[1]",
        f"{where}.listDelimiter",
    }


def test_unknown_fields_are_warned_of_by_path() -> None:
    posted = older({"type": "string", "parseSpec": {"format": "json", "fancy": 1}, "other": 2})
    posted["dataSchema"]["parser"]["parseSpec"]["dimensionsSpec"] = {"dimension": ["a"]}
    warnings = parse_supervisor_spec(posted)[1]
    assert [text.split(" ")[0] for text in warnings] == [
        "$.dataSchema.parser.other",
        "$.dataSchema.parser.parseSpec.fancy",
        "$.dataSchema.parser.parseSpec.dimensionsSpec.dimension",
    ]


@pytest.mark.parametrize(
    ("parser", "where"),
    [
        ({"type": "string", "parseSpec": {"format": "javascript"}}, ".parseSpec.format"),
        ({"type": "string", "parseSpec": {"format": "jsonLowercase"}}, ".parseSpec.format"),
        ({"type": "string", "parseSpec": {"format": "json"}, "encoding": "UTF-16"}, ".encoding"),
        ({"type": "thrift", "parseSpec": {}}, ".type"),
    ],
)
def test_parsers_that_are_not_read_are_refused_by_name(parser: dict[str, Any], where: str) -> None:
    assert paths(older(parser)) == {f"$.dataSchema.parser{where}"}


@pytest.mark.parametrize("parser", [5, [], {}, {"type": "string"}, {"parseSpec": []}, {"parseSpec": {}}])
def test_a_parser_that_is_none_is_a_fault_of_the_spec(parser: Any) -> None:
    posted = {"type": "kafka", "dataSchema": {"dataSource": "clicks", "parser": parser}, "ioConfig": IO}
    assert all(path.startswith("$.dataSchema.parser") or path == "$.ioConfig.inputFormat" for path in paths(posted))


def test_both_forms_at_once_are_a_contradiction() -> None:
    posted = older({"type": "string", "parseSpec": {"format": "json"}})
    posted["dataSchema"]["timestampSpec"] = TIME
    posted["ioConfig"] = {**IO, "inputFormat": {"type": "json"}}
    assert paths(posted) == {"$.dataSchema.parser.parseSpec.timestampSpec", "$.dataSchema.parser"}
