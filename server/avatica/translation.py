"""Translates Avatica's protocol buffers to the dictionaries of its JSON and back."""

from __future__ import annotations

import struct
from typing import Any

from server.avatica import messages as m
from server.avatica.protobuf import Malformed, decode, encode

Message = dict[str, Any]
_REQUESTS = "org.apache.calcite.avatica.proto.Requests$"
_RESPONSES = "org.apache.calcite.avatica.proto.Responses$"
_NUMBERS = {name: number for number, name in enumerate(m.REPS)}
_FLOAT_BITS = struct.Struct("<f")
_INT_BITS = struct.Struct("<I")
_LONG_MAX = 2**63 - 1


def request_of(content: bytes) -> Message:
    """A request's bytes as its JSON would be.

    Raises:
        Malformed: they are none, or a request nobody knows.
    """
    wire = decode(m.WIRE_MESSAGE, content)
    name = str(wire.get("name", "")).removeprefix(_REQUESTS)
    known = m.REQUESTS.get(name)
    if known is None:
        raise Malformed(f"request {name!r} is none of {', '.join(m.REQUESTS)}")
    kind, table = known
    request = decode(table, wire.get("wrapped", b""))
    for field in [field for field in request if field.startswith("has_")]:
        # Set, and empty: the format leaves such a field out.
        default: object = [] if field in ("has_typeList", "has_parameterValues") else ""
        request.setdefault(field.removeprefix("has_"), default)
    if "info" in request:
        request["info"] = {entry.get("key", ""): entry.get("value", "") for entry in request["info"]}
    if "parameterValues" in request:
        request["parameterValues"] = [_typed_value(value) for value in request["parameterValues"]]
    if "statementHandle" in request:
        request["statementHandle"].pop("signature", None)
    return request | {"request": kind}


def bytes_of(response: Message) -> bytes:
    """A response in JSON's form as bytes."""
    kind = str(response["response"])
    table = m.RESPONSES[kind]
    body = dict(response)
    if kind == "error":
        body |= {"hasExceptions": True, "severity": m.ERROR_SEVERITY, "errorCode": response["errorCode"] & 0xFFFFFFFF}
    elif kind == "connectionSync":
        body["connProps"] = response["connProps"] | {"hasAutoCommit": True, "hasReadOnly": True}
    elif kind == "databaseProperties":
        body["map"] = [{"key": {"name": key}, "value": _property(value)} for key, value in response["map"].items()]
    elif kind == "executeResults":
        body["results"] = [_result_set(result) for result in response["results"]]
    elif kind == "resultSet":
        body = _result_set(response)
    elif kind == "fetch":
        body["frame"] = None if response["frame"] is None else _frame(response["frame"], ())
    elif kind == "prepare":
        body["statement"] = response["statement"] | {"signature": _signature(response["statement"]["signature"])}
    return encode(m.WIRE_MESSAGE, {"name": _RESPONSES + table.name, "wrapped": encode(table, body)})


def _typed_value(value: Message) -> Message | None:
    kind = m.REPS[value.get("type", 0)] if value.get("type", 0) < len(m.REPS) else "OBJECT"
    if value.get("implicitlyNull"):
        return None
    if value.get("null") or kind == "NULL":
        return {"type": kind, "value": None}
    if kind == "ARRAY":
        return {"type": kind, "value": [_typed_value(one) for one in value.get("array", [])]}
    if kind in ("BOOLEAN", "PRIMITIVE_BOOLEAN"):
        return {"type": kind, "value": value.get("bool", False)}
    if kind in ("DOUBLE", "PRIMITIVE_DOUBLE"):
        return {"type": kind, "value": value.get("double", 0.0)}
    if kind in ("FLOAT", "PRIMITIVE_FLOAT"):
        return {"type": kind, "value": _FLOAT_BITS.unpack(_INT_BITS.pack(value.get("number", 0) & 0xFFFFFFFF))[0]}
    if kind in ("STRING", "CHARACTER", "PRIMITIVE_CHAR", "BIG_DECIMAL"):
        return {"type": kind, "value": value.get("string", "")}
    if kind == "BIG_INTEGER":
        return {"type": kind, "value": int.from_bytes(value.get("bytes", b""), "big", signed=True)}
    return {"type": kind, "value": value.get("number", 0)}


def _result_set(result: Message) -> Message:
    columns = [column["type"] for column in result["signature"]["columns"]]
    return result | {
        "signature": _signature(result["signature"]),
        "firstFrame": _frame(result["firstFrame"], columns),
    }


def _signature(signature: Message) -> Message:
    columns = [column | {"type": _type(column["type"])} for column in signature["columns"]]
    factory = {"style": m.STYLES.index(signature["cursorFactory"]["style"])}
    return signature | {"columns": columns, "cursorFactory": factory, "statementType": 0}


def _type(type_: Message) -> Message:
    # Numbers of types are unsigned on the wire; a driver reads 32 bits of them.
    rep = type_["name"].replace("BIGINT", "LONG") if type_["rep"] == "NUMBER" else type_["rep"]
    told: Message = {"id": type_["id"] & 0xFFFFFFFF, "name": type_["name"], "rep": _NUMBERS[rep]}
    if "component" in type_:
        told["component"] = _type(type_["component"])
    return told


def _frame(frame: Message, columns: Any) -> Message:
    rows = [{"value": [_cell(cell) for cell in row]} for row in frame["rows"]]
    return frame | {"rows": rows}


def _cell(cell: Any) -> Message:
    if isinstance(cell, list):
        return {"hasArray": True, "array": [_value(one) for one in cell]}
    return {"scalar": _value(cell)}


def _property(value: str | int) -> Message:
    if isinstance(value, int):
        return {"type": _NUMBERS["INTEGER"], "number": value}
    return _value(value)


def _value(value: Any) -> Message:
    """A value with the representation that its own kind has; a driver converts to the column's."""
    if value is None:
        return {"type": _NUMBERS["NULL"], "null": True}
    if isinstance(value, bool):
        return {"type": _NUMBERS["BOOLEAN"], "bool": value}
    if isinstance(value, int):
        if -_LONG_MAX - 1 <= value <= _LONG_MAX:
            return {"type": _NUMBERS["LONG"], "number": value}
        return {"type": _NUMBERS["BIG_DECIMAL"], "string": str(value)}
    if isinstance(value, float):
        return {"type": _NUMBERS["DOUBLE"], "double": value}
    return {"type": _NUMBERS["STRING"], "string": str(value)}
