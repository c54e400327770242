"""The JSON shapes of Druid's input formats for pydantic: types only; the rules are beside them in ``ingest.spec``."""

from __future__ import annotations

from typing import Any

from pydantic import Field, StrictStr

from ingest.spec.edge import Edge, FlattenEdge


class FormatEdge(Edge):
    """What every format has: its type."""

    type: StrictStr | None = None


class JsonEdge(FormatEdge):
    flatten_spec: FlattenEdge | None = None
    feature_spec: dict[StrictStr, bool] | None = None
    keep_null_columns: bool = False
    assume_newline_delimited: bool = False
    use_json_node_reader: bool = False


class DelimitedEdge(FormatEdge):
    columns: list[StrictStr] = []
    list_delimiter: StrictStr = "\x01"
    delimiter: StrictStr = "\t"
    find_columns_from_header: bool | None = None
    has_header_row: bool | None = None
    skip_header_rows: int = 0
    try_parse_numbers: bool = False


class CsvEdge(FormatEdge):
    columns: list[StrictStr] = []
    list_delimiter: StrictStr = "\x01"
    find_columns_from_header: bool | None = None
    has_header_row: bool | None = None
    skip_header_rows: int = 0
    try_parse_numbers: bool = False


class RegexEdge(FormatEdge):
    pattern: StrictStr | None = None
    columns: list[StrictStr] = []
    list_delimiter: StrictStr = "\x01"


class AvroEdge(FormatEdge):
    avro_bytes_decoder: dict[str, Any] | None = None
    flatten_spec: FlattenEdge | None = None
    binary_as_string: bool = False
    extract_unions_by_type: bool = False


class AvroFileEdge(FormatEdge):
    flatten_spec: FlattenEdge | None = None
    schema_: dict[str, Any] | None = Field(default=None, alias="schema")
    binary_as_string: bool = False
    extract_unions_by_type: bool = False


class ProtobufEdge(FormatEdge):
    proto_bytes_decoder: dict[str, Any] | None = None
    flatten_spec: FlattenEdge | None = None


class KafkaEdge(FormatEdge):
    value_format: dict[str, Any] | None = None
    key_format: dict[str, Any] | None = None
    header_format: dict[str, Any] | None = None
    header_column_prefix: StrictStr = "kafka.header."
    key_column_name: StrictStr = "kafka.key"
    timestamp_column_name: StrictStr = "kafka.timestamp"
    topic_column_name: StrictStr = "kafka.topic"


class HeaderFormatEdge(FormatEdge):
    encoding: StrictStr = "UTF-8"


class RegistryEdge(FormatEdge):
    url: StrictStr | None = None
    urls: list[StrictStr] | None = None
    capacity: int | None = None
    config: dict[str, Any] = {}
    headers: dict[str, Any] = {}


class InlineSchemaEdge(FormatEdge):
    schema_: dict[str, Any] | None = Field(default=None, alias="schema")


class InlineSchemasEdge(FormatEdge):
    schemas: dict[str, Any] | None = None


class DescriptorFileEdge(FormatEdge):
    descriptor: StrictStr | None = None
    proto_message_type: StrictStr | None = None


class DescriptorInlineEdge(FormatEdge):
    descriptor_string: StrictStr | None = None
    proto_message_type: StrictStr | None = None


class HeaderFilterEdge(Edge):
    filter: dict[str, Any] | None = None
    encoding: StrictStr = "UTF-8"
    string_decoding_cache_size: int = 10_000
