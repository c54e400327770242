"""Tells the API page what requests carry beside their paths: query parameters and bodies, in OpenAPI's terms.

Routes read these by themselves, for Druid's flags are true when named without a value and its bodies
have members that nobody may refuse; here they are only described.
"""

from __future__ import annotations

from typing import Any

JSON = "application/json"
TEXT = {"type": "string"}
FLAG = {"type": "boolean", "default": False}

FULL = ("full", FLAG, "objects instead of names; also true without a value")
DATASOURCES = ("datasources", {"type": "array", "items": TEXT}, "only these tables; may be repeated")
TASK_FILTERS = (
    ("datasource", TEXT, "only tasks of this table"),
    ("type", TEXT, "only tasks of this type; here all are index_kafka"),
    ("max", {"type": "integer", "minimum": 1}, "at most so many"),
)

SUPERVISOR_SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["type", "spec"],
    "properties": {
        "type": {"type": "string", "enum": ["kafka"]},
        "spec": {
            "type": "object",
            "required": ["dataSchema", "ioConfig"],
            "properties": {
                "dataSchema": {"type": "object", "description": "table, timestamp, dimensions, metrics, granularity"},
                "ioConfig": {"type": "object", "description": "topic, input format, consumer properties, tasks"},
                "tuningConfig": {"type": "object", "description": "limits and patience"},
            },
        },
        "suspended": {"type": "boolean", "default": False},
        "context": {"type": "object"},
    },
}
SAMPLE: dict[str, Any] = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "type": {"type": "string", "enum": ["kafka", "index", "index_parallel"]},
        "spec": {"type": "object", "description": "a supervisor's dataSchema and ioConfig, or an inline inputSource"},
        "samplerConfig": {
            "type": "object",
            "properties": {"numRows": {"type": "integer"}, "timeoutMs": {"type": "integer"}},
        },
    },
}
LOOKUP: dict[str, Any] = {
    "type": "object",
    "required": ["lookupExtractorFactory"],
    "properties": {
        "version": {"type": "string", "example": "v1"},
        "lookupExtractorFactory": {
            "type": "object",
            "description": "map, or cachedNamespace with a uri or jdbc extractionNamespace",
            "example": {"type": "map", "map": {"CH": "Switzerland"}},
        },
    },
}
LOOKUP_TIERS: dict[str, Any] = {
    "type": "object",
    "description": "lookups by tier (__default) and name",
    "additionalProperties": {"type": "object", "additionalProperties": LOOKUP},
}
RESET_OFFSETS: dict[str, Any] = {
    "type": "object",
    "required": ["partitions"],
    "properties": {
        "type": {"type": "string", "enum": ["kafka"]},
        "partitions": {
            "type": "object",
            "required": ["partitionOffsetMap"],
            "properties": {
                "type": {"type": "string", "enum": ["end"]},
                "stream": {"type": "string", "description": "the supervisor's topic"},
                "partitionOffsetMap": {
                    "type": "object",
                    "additionalProperties": {"type": "integer", "minimum": 0},
                    "example": {"0": 100, "3": 150},
                },
            },
        },
    },
}
HAND_OFF: dict[str, Any] = {
    "type": "object",
    "required": ["taskGroupIds"],
    "properties": {"taskGroupIds": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "example": [3]}},
}
MARK: dict[str, Any] = {
    "type": "object",
    "description": "exactly one of the two",
    "properties": {
        "interval": {"type": "string", "example": "2026-01-01T00:00:00Z/2026-01-02T00:00:00Z"},
        "segmentIds": {"type": "array", "items": TEXT},
    },
}
SQL: dict[str, Any] = {
    "type": "object",
    "required": ["query"],
    "properties": {
        "query": {"type": "string", "example": "SELECT COUNT(*) AS n FROM wikipedia"},
        "resultFormat": {
            "type": "string",
            "enum": ["object", "array", "objectLines", "arrayLines", "csv", "arrow"],
            "default": "object",
        },
        "header": {"type": "boolean", "default": False, "description": "names of columns first"},
        "typesHeader": {"type": "boolean", "default": False, "description": "their Druid types, too"},
        "sqlTypesHeader": {"type": "boolean", "default": False, "description": "their SQL types, too"},
        "context": {"type": "object", "description": "sqlQueryId, timeout, ..."},
        "parameters": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type", "value"],
                "properties": {"type": {"type": "string", "example": "VARCHAR"}, "value": {}},
            },
        },
    },
}

NATIVE: dict[str, Any] = {
    "type": "object",
    "required": ["queryType", "dataSource"],
    "properties": {
        "queryType": {"type": "string", "example": "timeseries"},
        "dataSource": {"type": "string", "example": "wikipedia"},
        "intervals": {"type": "array", "items": TEXT},
        "context": {"type": "object", "description": "queryId, timeout, ..."},
    },
    "additionalProperties": True,
}


def parameters(*told: tuple[str, dict[str, Any], str]) -> dict[str, Any]:
    """``openapi_extra`` for query parameters: name, schema and what it does."""
    return {
        "parameters": [
            {"name": name, "in": "query", "required": False, "schema": schema, "description": does}
            for name, schema, does in told
        ]
    }


def body(schema: dict[str, Any], others: dict[str, str] | None = None) -> dict[str, Any]:
    """``openapi_extra`` for a JSON body; ``others`` are further content types with what their text is."""
    content: dict[str, Any] = {JSON: {"schema": schema}}
    content |= {kind: {"schema": {**TEXT, "description": does}} for kind, does in (others or {}).items()}
    return {"requestBody": {"required": True, "content": content}}
