"""What the parser of supervisor specs accepts, refuses and warns about."""

from __future__ import annotations

import copy
import subprocess
import sys
from typing import Any
from urllib.parse import quote

import pytest

from ingest.errors import SpecError, SpecProblem
from ingest.spec import SupervisorSpec, parse_supervisor_spec, rows_differ
from ingest.spec.model import Discovery, Documents, JsonFormat
from segments.storage.layout import quarantine_key_for

MINIMAL: dict[str, Any] = {
    "type": "kafka",
    "spec": {
        "dataSchema": {"dataSource": "edits", "dimensionsSpec": {"dimensions": ["page"]}},
        "ioConfig": {
            "topic": "edits",
            "inputFormat": {"type": "json"},
            "consumerProperties": {"bootstrap.servers": "localhost:9092"},
        },
    },
}


def spec_with(path: str, value: Any) -> dict[str, Any]:
    """The minimal spec with one value set at a dotted path below ``spec``."""
    posted = copy.deepcopy(MINIMAL)
    at: Any = posted["spec"]
    *parents, last = path.split("/")
    for name in parents:
        at = at.setdefault(name, {})
    at[last] = value
    return posted


def accepted(posted: Any) -> SupervisorSpec:
    return parse_supervisor_spec(posted)[0]


def problems(posted: Any) -> list[SpecProblem]:
    with pytest.raises(SpecError) as caught:
        parse_supervisor_spec(posted)
    return caught.value.problems


def test_defaults_are_druids() -> None:
    spec = accepted(MINIMAL)
    assert (spec.supervisor, spec.datasource, spec.suspended) == ("edits", "edits", False)
    assert (spec.io.task_count, spec.io.replicas, spec.io.task_duration_ms) == (1, 1, 3_600_000)
    assert (spec.io.completion_timeout_ms, spec.io.period_ms, spec.io.start_delay_ms) == (1_800_000, 30_000, 5_000)
    assert spec.io.use_earliest_offset is False
    assert (spec.tuning.max_rows_per_segment, spec.tuning.max_total_rows) == (5_000_000, 20_000_000)
    assert spec.tuning.max_rows_in_memory == 150_000
    assert spec.data_schema.rollup is True
    assert spec.data_schema.timestamp.column == "timestamp"
    assert str(spec.data_schema.segment_granularity) == "DAY"


def test_what_was_posted_is_kept_to_the_letter() -> None:
    posted = spec_with("tuningConfig", {"type": "kafka", "fancy": {"x": [1]}})
    posted["context"] = {"tags": 1}
    spec, warnings = parse_supervisor_spec(posted)
    assert spec.posted == posted and spec.posted is not posted
    assert warnings == ("$.spec.tuningConfig.fancy is not known and has no effect",)


def test_a_misspelt_field_is_named_with_its_path_and_the_nearest_known_one() -> None:
    _, warnings = parse_supervisor_spec(spec_with("ioConfig/taskCont", 2))
    assert warnings == ("$.spec.ioConfig.taskCont is not known and has no effect; did you mean taskCount?",)


def test_numbers_and_booleans_may_be_text_and_null_means_default() -> None:
    posted = spec_with("ioConfig/taskCount", "3")
    posted["spec"]["ioConfig"] |= {"useEarliestOffset": "true", "replicas": None}
    posted["spec"]["tuningConfig"] = {"type": "kafka", "maxRowsPerSegment": "300"}
    spec = accepted(posted)
    assert (spec.io.task_count, spec.io.replicas, spec.io.use_earliest_offset) == (3, 1, True)
    assert spec.tuning.max_rows_per_segment == 300


def test_periods_are_iso_8601() -> None:
    spec = accepted(spec_with("ioConfig/taskDuration", "PT90S"))
    assert spec.io.task_duration_ms == 90_000
    never = accepted(spec_with("tuningConfig/intermediateHandoffPeriod", "P2147483647D"))
    assert never.tuning.intermediate_handoff_period_ms is None
    assert [p.path for p in problems(spec_with("ioConfig/period", "30s"))] == ["$.spec.ioConfig.period"]


def test_all_faults_are_told_at_once_each_with_its_path() -> None:
    posted = {
        "type": "kinesis",
        "spec": {
            "dataSchema": {
                "dataSource": "a/b",
                "timestampSpec": {"format": "qq"},
                "dimensionsSpec": {"dimensions": ["a", 5, {"type": "spatial", "name": "j"}, {"name": "a"}]},
                "metricsSpec": [{"type": "cardinality", "name": "q", "fieldName": "u"}],
                "granularitySpec": {"segmentGranularity": "fortnight", "rollup": "maybe"},
                "transformSpec": {"transforms": [{"name": "x"}], "filter": {"type": "javascript"}},
            },
            "ioConfig": {"topicPattern": "x(", "inputFormat": {"type": "parquet"}, "taskCount": "two"},
            "tuningConfig": {"type": "kafka", "maxRowsPerSegment": 0},
        },
    }
    found = problems(posted)
    assert {p.path for p in found} >= {
        "$.type",
        "$.spec.dataSchema.dataSource",
        "$.spec.dataSchema.timestampSpec.format",
        "$.spec.dataSchema.dimensionsSpec.dimensions[1]",
        "$.spec.dataSchema.dimensionsSpec.dimensions[2].type",
        "$.spec.dataSchema.dimensionsSpec.dimensions",
        "$.spec.dataSchema.metricsSpec[0].type",
        "$.spec.dataSchema.granularitySpec.segmentGranularity",
        "$.spec.dataSchema.granularitySpec.rollup",
        "$.spec.dataSchema.transformSpec.transforms[0].type",
        "$.spec.dataSchema.transformSpec.transforms[0].expression",
        "$.spec.dataSchema.transformSpec.filter.type",
        "$.spec.ioConfig.topicPattern",
        "$.spec.ioConfig.inputFormat.type",
        "$.spec.ioConfig.taskCount",
        "$.spec.ioConfig.consumerProperties",
        "$.spec.tuningConfig.maxRowsPerSegment",
    }
    assert all(p.rule and p.cure for p in found)


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        ("dataSchema/parser", {"type": "string"}, "$.spec.dataSchema.parser"),
        ("ioConfig/topicPattern", "clicks-.*", "$.spec.ioConfig.topicPattern"),
        ("dataSchema/parser", {"type": "orc", "parseSpec": {}}, "$.spec.dataSchema.parser.type"),
        ("dataSchema/dimensionsSpec/spatialDimensions", [{}], "$.spec.dataSchema.dimensionsSpec.spatialDimensions"),
        ("dataSchema/metricsSpec", [{"type": "javascript"}], "$.spec.dataSchema.metricsSpec[0].type"),
        ("dataSchema/metricsSpec", [{"type": "longSum", "name": "s"}], "$.spec.dataSchema.metricsSpec[0].fieldName"),
        ("dataSchema/granularitySpec/queryGranularity", "month", "$.spec.dataSchema.granularitySpec.queryGranularity"),
        (
            "dataSchema/granularitySpec/segmentGranularity",
            "none",
            "$.spec.dataSchema.granularitySpec.segmentGranularity",
        ),
        ("ioConfig/inputFormat", {"type": "javascript"}, "$.spec.ioConfig.inputFormat.type"),
        (
            "ioConfig/inputFormat/featureSpec",
            {"ALLOW_WISHES": True},
            "$.spec.ioConfig.inputFormat.featureSpec.ALLOW_WISHES",
        ),
        ("ioConfig/boundedStreamConfig", {"a": 1}, "$.spec.ioConfig.boundedStreamConfig.startSequenceNumbers"),
        ("ioConfig/topic", "", "$.spec.ioConfig.topic"),
        ("ioConfig/consumerProperties", {}, "$.spec.ioConfig.consumerProperties['bootstrap.servers']"),
        ("tuningConfig/onBadValue", "explode", "$.spec.tuningConfig.onBadValue"),
    ],
)
def test_what_would_change_the_rows_and_is_not_built_is_refused_by_name(path: str, value: Any, where: str) -> None:
    posted = spec_with(path, value)
    assert where in [p.path for p in problems(posted)]


@pytest.mark.parametrize(("kind", "expr"), [("path", "$.a[?(@.b"), ("path", "a.b"), ("jq", ".a | nonsense(")])
def test_paths_and_programs_that_cannot_be_read_are_refused(kind: str, expr: str) -> None:
    flatten = {"fields": [{"type": kind, "name": "x", "expr": expr}]}
    posted = spec_with("ioConfig/inputFormat/flattenSpec", flatten)
    assert [p.path for p in problems(posted)] == ["$.spec.ioConfig.inputFormat.flattenSpec.fields[0].expr"]


def test_flattening_by_root_path_and_tree_is_read() -> None:
    fields = [
        "top",
        {"type": "path", "name": "c", "expr": "$.a['b c'][0][*]"},
        {"type": "tree", "name": "t", "nodes": ["a", "b"]},
    ]
    spec = accepted(spec_with("ioConfig/inputFormat/flattenSpec", {"useFieldDiscovery": False, "fields": fields}))
    read = spec.data_schema.input_format
    assert isinstance(read, JsonFormat)
    assert read.discover_fields is False and read.documents is Documents.WHOLE
    assert [f.steps for f in read.flatten] == [("top",), ("a", "b c", 0, None), ("a", "b")]


def test_discovery_is_on_only_where_nothing_is_declared_or_everything_is_asked_for() -> None:
    def discovery(block: dict[str, Any]) -> Discovery:
        return accepted(spec_with("dataSchema/dimensionsSpec", block)).data_schema.discovery

    assert discovery({"dimensions": ["a"]}) is Discovery.NONE
    assert discovery({"dimensions": ["a"], "useSchemaDiscovery": True}) is Discovery.NONE
    assert discovery({}) is Discovery.STRINGS
    assert discovery({"useSchemaDiscovery": True}) is Discovery.TYPED
    assert discovery({"dimensions": ["a"], "includeAllDimensions": True}) is Discovery.STRINGS


def test_the_flat_form_of_old_specs_is_read() -> None:
    flat = {"type": "kafka", "id": "other", **copy.deepcopy(MINIMAL["spec"])}
    spec = accepted(flat)
    assert (spec.supervisor, spec.datasource) == ("other", "edits")


def test_both_late_windows_together_are_refused() -> None:
    posted = spec_with("ioConfig/lateMessageRejectionPeriod", "PT1H")
    posted["spec"]["ioConfig"]["lateMessageRejectionStartDateTime"] = "2026-01-01"
    assert [p.path for p in problems(posted)] == ["$.spec.ioConfig.lateMessageRejectionPeriod"]


def test_only_what_changes_the_rows_asks_for_a_cut_over() -> None:
    old = accepted(MINIMAL)
    assert not rows_differ(old, accepted(spec_with("ioConfig/taskCount", 4)))
    assert not rows_differ(old, accepted(spec_with("tuningConfig/maxRowsPerSegment", 10)))
    for path, value in (
        ("dataSchema/metricsSpec", [{"type": "count", "name": "n"}]),
        ("dataSchema/timestampSpec", {"column": "ts"}),
        ("dataSchema/transformSpec", {"filter": {"type": "selector", "dimension": "page", "value": "x"}}),
        ("ioConfig/topic", "others"),
        ("ioConfig/earlyMessageRejectionPeriod", "PT1H"),
        ("tuningConfig/onBadValue", "reject"),
    ):
        assert rows_differ(old, accepted(spec_with(path, value))), path


@pytest.mark.parametrize(
    "posted", [None, [], "x", {}, {"type": "kafka"}, {"type": "kafka", "spec": {}}, {"type": "kafka", "spec": []}]
)
def test_anything_but_a_spec_is_a_spec_error(posted: Any) -> None:
    assert problems(posted)


def test_importing_the_package_loads_neither_pydantic_nor_arrow() -> None:
    code = "import sys, ingest.spec; sys.exit('pydantic' in sys.modules or 'pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        ("ioConfig/replicas", 2**63 - 1, "$.spec.ioConfig.replicas"),
        ("ioConfig/taskCount", 2**31, "$.spec.ioConfig.taskCount"),
        ("ioConfig/taskDuration", "P1000000000Y", "$.spec.ioConfig.taskDuration"),
        ("ioConfig/earlyMessageRejectionPeriod", "PT9999999999999999H", "$.spec.ioConfig.earlyMessageRejectionPeriod"),
        ("ioConfig/topic", "a/b", "$.spec.ioConfig.topic"),
        ("ioConfig/topic", "a\0", "$.spec.ioConfig.topic"),
        ("ioConfig/topic", "t" * 250, "$.spec.ioConfig.topic"),
        ("dataSchema/dimensionsSpec/dimensions", ["a\0"], "$.spec.dataSchema.dimensionsSpec.dimensions[0].name"),
        ("dataSchema/dimensionsSpec/dimensions", ["\0"], "$.spec.dataSchema.dimensionsSpec.dimensions[0].name"),
        ("dataSchema/metricsSpec", [{"type": "count", "name": "__time_of:x"}], "$.spec.dataSchema.metricsSpec[0].name"),
        (
            "ioConfig/inputFormat/flattenSpec",
            {"fields": [{"type": "root", "name": "\0"}]},
            "$.spec.ioConfig.inputFormat.flattenSpec.fields[0].name",
        ),
    ],
)
def test_what_no_clock_no_file_and_no_broker_could_take_is_refused(path: str, value: Any, where: str) -> None:
    assert where in [p.path for p in problems(spec_with(path, value))]


def test_druids_way_to_say_never_is_no_fault() -> None:
    assert accepted(spec_with("ioConfig/earlyMessageRejectionPeriod", "P2147483647D"))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("ioConfig/consumerProperties", "sasl.password=hush"),
        ("ioConfig/consumerProperties", ["hush"]),
        ("ioConfig", [{"consumerProperties": {"sasl.password": "hush"}}]),
    ],
)
def test_what_may_hold_a_secret_is_not_repeated_when_it_is_of_a_wrong_type(path: str, value: Any) -> None:
    assert "hush" not in repr(problems(spec_with(path, value)))


def test_a_huge_value_does_not_drown_its_error() -> None:
    with pytest.raises(SpecError) as caught:
        parse_supervisor_spec(spec_with("dataSchema/timestampSpec/format", "9" * 1_000_000))
    assert len(str(caught.value)) < 2_000


def test_sorting_by_other_columns_than_time_has_no_effect_and_is_told() -> None:
    block = {"forceSegmentSortByTime": False, "dimensions": ["page", {"type": "long", "name": "__time"}, "user"]}
    spec, warnings = parse_supervisor_spec(spec_with("dataSchema/dimensionsSpec", block))
    assert [dimension.name for dimension in spec.data_schema.dimensions] == ["page", "user"]
    assert any("forceSegmentSortByTime has no effect" in warning for warning in warnings)


@pytest.mark.parametrize(
    ("form", "where"),
    [
        ({"type": "avro_stream"}, ".avroBytesDecoder"),
        ({"type": "avro_stream", "avroBytesDecoder": {"type": "schema_repo"}}, ".avroBytesDecoder.type"),
        ({"type": "avro_stream", "avroBytesDecoder": {}}, ".avroBytesDecoder.type"),
        ({"type": "avro_stream", "avroBytesDecoder": {"type": "schema_inline"}}, ".avroBytesDecoder.schema"),
        ({"type": "avro_stream", "avroBytesDecoder": {"type": "schema_registry"}}, ".avroBytesDecoder.url"),
        (
            {"type": "avro_stream", "avroBytesDecoder": {"type": "schema_registry", "urls": ["ftp://a"]}},
            ".avroBytesDecoder.urls[0]",
        ),
        (
            {"type": "avro_stream", "avroBytesDecoder": {"type": "multiple_schemas_inline", "schemas": {"x": {}}}},
            ".avroBytesDecoder.schemas.x",
        ),
        ({"type": "protobuf", "protoBytesDecoder": {"type": "other"}}, ".protoBytesDecoder.type"),
        (
            {"type": "protobuf", "protoBytesDecoder": {"type": "file", "descriptor": "http://a/b"}},
            ".protoBytesDecoder.descriptor",
        ),
        (
            {"type": "protobuf", "protoBytesDecoder": {"type": "inline", "descriptorString": "!"}},
            ".protoBytesDecoder.descriptorString",
        ),
        ({"type": "kafka"}, ".valueFormat"),
        ({"type": "kafka", "valueFormat": {"type": "kafka"}}, ".valueFormat.type"),
        ({"type": "kafka", "valueFormat": {"type": "json"}, "headerFormat": {"type": "x"}}, ".headerFormat.type"),
        ({"type": "csv"}, ".columns"),
        ({"type": "tsv", "columns": ["a"], "delimiter": ""}, ".delimiter"),
        ({"type": "regex", "pattern": "(?=a)(b)"}, ".pattern"),
        ({"type": "regex", "pattern": "a"}, ".pattern"),
        ({"type": "regex", "pattern": "(a)(b)", "columns": ["x"]}, ".columns"),
    ],
)
def test_decoders_that_are_not_read_are_refused_by_name(form: dict[str, Any], where: str) -> None:
    assert f"$.spec.ioConfig.inputFormat{where}" in [p.path for p in problems(spec_with("ioConfig/inputFormat", form))]


def test_a_format_without_its_library_is_refused_with_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    form = {"type": "avro_stream", "avroBytesDecoder": {"type": "schema_registry", "url": "http://a:1"}}
    cures = [problem.cure for problem in problems(spec_with("ioConfig/inputFormat", form))]
    assert "pip install 'siltstone[avro]'" in cures and "pip install 'siltstone[registry]'" in cures


def test_a_pattern_of_topics_is_a_stream_of_its_own() -> None:
    posted = spec_with("ioConfig/topicPattern", "clicks-.*")
    topic = posted["spec"]["ioConfig"].pop("topic")
    io = parse_supervisor_spec(posted)[0].io
    assert (io.topic, io.stream, io.topic_pattern) == ("/clicks-.*/", "clicks-.*", "clicks-.*")
    single = parse_supervisor_spec(spec_with("ioConfig/topic", topic))[0].io
    assert (single.stream, single.topic_pattern) == (topic, None)


@pytest.mark.parametrize("pattern", ["", "(", r"a(?=b)", r"(a)\1", "a++"])
def test_a_pattern_that_cannot_be_matched_in_linear_time_is_refused(pattern: str) -> None:
    posted = spec_with("ioConfig/topicPattern", pattern)
    del posted["spec"]["ioConfig"]["topic"]
    assert [p.path for p in problems(posted)] == ["$.spec.ioConfig.topicPattern"]


@pytest.mark.parametrize("name", [".", "..", ".hidden", "_quarantine", "x" * 256, "\u00e9" * 43, "a\u00a0b/", "a\nb"])
def test_a_name_that_is_no_folder_is_refused_before_anything_is_read(name: str) -> None:
    """Once accepted, what was read could not be published, or stood in another's place."""
    assert "$.spec.dataSchema.dataSource" in {p.path for p in problems(spec_with("dataSchema/dataSource", name))}
    assert [p.path for p in problems({**spec_with("ioConfig/taskCount", 1), "id": name})] == ["$.id"]


@pytest.mark.parametrize("name", ["x" * 200, "\u00e9" * 33, "wiki edits", "a:b*?[x]{y}", "\U0001f600"])
def test_longest_names_fit_into_the_folders_of_tasks_and_files(name: str) -> None:
    parsed, _ = parse_supervisor_spec(spec_with("dataSchema/dataSource", name))
    assert parsed.supervisor == parsed.datasource == name
    sequence = f"{name}_1234567890_1234567890"
    assert quarantine_key_for(name, sequence, "t" * 64)
    assert len(quote(f"index_kafka_{name}_1234567890_9999.1234567890", safe="")) <= 255
