"""Which cases can be run without a server, and how one is run."""

import json
from functools import cache
from typing import Any

from query.errors import QueryError
from query.model import ResultFormat
from tests.conformance.engine import answer, request_of
from tests.conformance.judging import judge_rows, judge_text
from tests.conformance.native import answer_text, judge_native
from tests.conformance.tables import HERE

Case = dict[str, Any]


@cache
def cases() -> dict[str, Case]:
    """The SQL statements, the native queries, and the HTTP requests that are nothing but one."""
    with (HERE / "cases.jsonl").open(encoding="utf-8") as lines:
        read = [json.loads(line) for line in lines]
    return {case["id"]: case for case in read if case["kind"] in ("sql", "native") or _is_statement(case)}


def _is_statement(case: Case) -> bool:
    request = case["request"]
    body = request.get("body")
    if not isinstance(body, dict):
        return False
    return _is_native(case) or (request.get("path") in ("/druid/v2/sql", "/druid/v2/sql/") and "query" in body)


def _is_native(case: Case) -> bool:
    path = str(case["request"].get("path", "")).partition("?")[0].rstrip("/")
    return case["kind"] == "native" or path == "/druid/v2"


def fault(case: Case) -> str | None:
    """None when the answer is right, else one sentence that says what is wrong."""
    expected, is_http = case["expected"], case["kind"] == "http"
    body = case["request"]["body"] if is_http else case["request"]
    try:
        if _is_native(case):
            return _native_fault(case, body)
        if is_http:
            text = answer(request_of(body))
        else:
            headers = {"header": True, "types_header": True, "sql_types_header": True}
            text = answer(request_of(body, result_format=ResultFormat.ARRAY, **headers))
    except (QueryError, ValueError) as error:
        return _judge_error(expected, error)
    if expected["status"] != 200:
        return f"answered, expected status {expected['status']}"
    return judge_text(expected["text"], text) if is_http else judge_rows(case, json.loads(text))


def _native_fault(case: Case, body: Any) -> str | None:
    expected, text = case["expected"], answer_text(body)
    if expected["status"] != 200:
        return f"answered, expected status {expected['status']}"
    return judge_text(expected["text"], text) if case["kind"] == "http" else judge_native(case, json.loads(text))


def _judge_error(expected: Case, error: Exception) -> str | None:
    status = error.status if isinstance(error, QueryError) else 400
    if status != expected["status"]:
        return f"status {status}, expected {expected['status']}: {error}"
    for key, actual in (("category", "category"), ("errorCode", "error_code")):
        if expected.get(key) is not None and expected[key] != getattr(error, actual, None):
            return f"{key} is {getattr(error, actual, None)!r}, expected {expected[key]!r}"
    return None
