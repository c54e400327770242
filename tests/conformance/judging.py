"""Says whether an answer is what a case expects: numbers within a tolerance, rows as a bag unless ordered."""

import json
import math
from typing import Any

DEFAULT_TOLERANCE = 1e-6
_ALIKE = {
    "CHAR": "VARCHAR",
    "TINYINT": "BIGINT",
    "SMALLINT": "BIGINT",
    "INTEGER": "BIGINT",
    "DECIMAL": "DOUBLE",
    "REAL": "DOUBLE",
}


def same(expected: Any, actual: Any, tolerance: float = DEFAULT_TOLERANCE) -> bool:
    """Deep equality; whole numbers exactly unless the case has a tolerance, 3 equals 3.0, true is not 1."""
    if isinstance(expected, bool) or isinstance(actual, bool) or expected is None or actual is None:
        return type(expected) is type(actual) and expected == actual
    if isinstance(expected, int | float) and isinstance(actual, int | float):
        return _same_number(expected, actual, tolerance)
    if isinstance(expected, list) and isinstance(actual, list):
        return len(expected) == len(actual) and all(
            same(one, two, tolerance) for one, two in zip(expected, actual, strict=True)
        )
    if isinstance(expected, dict) and isinstance(actual, dict):
        return expected.keys() == actual.keys() and all(same(v, actual[k], tolerance) for k, v in expected.items())
    if isinstance(expected, str) and isinstance(actual, str) and expected[:1] in "[{" and actual[:1] in "[{":
        return expected == actual or _same_json(expected, actual, tolerance)
    return bool(expected == actual)


def _same_number(expected: float, actual: float, tolerance: float) -> bool:
    if isinstance(expected, int) and isinstance(actual, int) and tolerance == DEFAULT_TOLERANCE:
        return expected == actual
    if math.isfinite(expected) and math.isfinite(actual):
        return abs(expected - actual) <= tolerance * max(abs(expected), abs(actual), 1e-12)
    return expected == actual or (math.isnan(expected) and math.isnan(actual))


def _same_json(expected: str, actual: str, tolerance: float) -> bool:
    try:
        return same(json.loads(expected), json.loads(actual), tolerance)
    except ValueError:
        return False


def same_bag(expected: list[Any], actual: list[Any], tolerance: float) -> bool:
    """Equality of lists in any order."""
    rest = list(actual)
    for row in expected:
        at = next((at for at, other in enumerate(rest) if same(row, other, tolerance)), None)
        if at is None:
            return False
        rest.pop(at)
    return not rest


def _members_sorted(value: Any) -> Any:
    if isinstance(value, str) and value[:1] == "[":
        try:
            value = json.loads(value)
        except ValueError:
            return value
    return sorted(value, key=json.dumps) if isinstance(value, list) else value


def _plain(sql_type: str) -> str:
    return _ALIKE.get(sql_type, sql_type)


def judge_rows(case: dict[str, Any], body: list[list[Any]]) -> str | None:
    """Judges an answer in array format with all three header rows; None when it is right, else what is wrong."""
    expected, tolerance = case["expected"], case.get("tolerance", DEFAULT_TOLERANCE)
    columns, types, sql_types, *rows = body
    if columns != expected["columns"] or types != expected["types"]:
        return f"columns {columns} {types}, expected {expected['columns']} {expected['types']}"
    if list(map(_plain, sql_types)) != list(map(_plain, expected["sqlTypes"])):
        return f"SQL types {sql_types}, expected {expected['sqlTypes']}"
    if case.get("compare") == "explain":
        return _judge_plan(expected["rows"][0], rows[0])
    pair: list[list[Any]] = [expected["rows"], rows]
    if case.get("compare") == "array-members":
        pair = [[[_members_sorted(cell) for cell in row] for row in part] for part in pair]
    if case.get("ordered"):
        return None if same(pair[0], pair[1], tolerance) else f"rows {rows[:5]}, expected {expected['rows'][:5]}"
    return (
        None
        if same_bag(pair[0], pair[1], tolerance)
        else f"rows {rows[:5]}, expected in any order {expected['rows'][:5]}"
    )


def _judge_plan(expected: list[str], actual: list[str]) -> str | None:
    steps = json.loads(actual[0])
    right = all("query" in step for step in steps) and json.loads(expected[2]) == json.loads(actual[2])
    right = right and same_bag(json.loads(expected[1]), json.loads(actual[1]), 0)
    return None if right else "plan, resources or attributes differ"


def judge_text(expected: str, actual: str) -> str | None:
    """Judges a body as text; JSON and lines of JSON are compared as such."""
    if expected == actual or _same_json(expected, actual, DEFAULT_TOLERANCE):
        return None
    lines = expected.split("\n"), actual.split("\n")
    alike = len(lines[0]) == len(lines[1])
    alike = alike and all(
        one == two or _same_json(one, two, DEFAULT_TOLERANCE) for one, two in zip(*lines, strict=True)
    )
    return None if alike else f"body {actual[:300]!r}, expected {expected[:300]!r}"
