"""Tells the API page what comes back: status, content type and shape of each route's answer, in OpenAPI's terms.

Routes build their answers by themselves, as Druid does; here the answers are only described.
"""

from __future__ import annotations

from importlib import resources
from typing import Any

from fastapi import FastAPI
from starlette.responses import HTMLResponse, Response

Schema = dict[str, Any]
JSON = "application/json"
TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "integer"}
FLAG: Schema = {"type": "boolean"}
ANY: Schema = {"type": "object", "additionalProperties": True}


def _list(of: Schema) -> Schema:
    return {"type": "array", "items": of}


def _object(**members: Schema) -> Schema:
    return {"type": "object", "properties": members}


ERROR = _object(error={**TEXT, "description": "what is wrong, and the cure"})
QUERY_ERROR = _object(
    error=TEXT,
    errorCode=TEXT,
    persona=TEXT,
    category={**TEXT, "description": "INVALID_INPUT, TIMEOUT, CANCELED, ..."},
    errorMessage=TEXT,
    errorClass=TEXT,
    host=TEXT,
    context=ANY,
)
NAMES = _list(TEXT)
SUPERVISOR = _object(id=TEXT, state=TEXT, detailedState=TEXT, healthy=FLAG, suspended=FLAG, spec=ANY)
REPORT = _object(id=TEXT, generationTime=TEXT, payload=ANY)
TASK = _object(
    id=TEXT, groupId=TEXT, type=TEXT, createdTime=TEXT, statusCode=TEXT, status=TEXT, dataSource=TEXT, errorMsg=TEXT
)
SEGMENT = _object(
    dataSource=TEXT, interval=TEXT, version=TEXT, loadSpec=ANY, dimensions=TEXT, metrics=TEXT, shardSpec=ANY,
    binaryVersion=NUMBER, size=NUMBER, num_rows=NUMBER, identifier=TEXT,
)  # fmt: skip
VERSIONS = _list(_object(version=TEXT, spec=ANY))
CHANGED = _object(numChangedSegments=NUMBER)
TABLE = _object(name=TEXT, properties=ANY, segments=_list(SEGMENT))

_SUPERVISOR = "/druid/indexer/v1/supervisor"
_TASK = "/druid/indexer/v1/task/{task}"
_METADATA = "/druid/coordinator/v1/metadata/datasources"
_LOOKUPS = "/druid/coordinator/v1/lookups"
ANSWERS: dict[str, Schema] = {
    "GET /status": _object(version=TEXT, modules=_list(ANY), memory=ANY, node=TEXT, roles=NAMES, python=TEXT),
    "GET /status/health": {**FLAG, "description": "true; 503 with each fault by name otherwise"},
    "GET /status/selfDiscovered/status": _object(selfDiscovered=FLAG),
    "GET /status/properties": ANY,
    f"GET {_SUPERVISOR}": {**NAMES, "description": "ids, or objects with ?full, ?state or ?system"},
    f"POST {_SUPERVISOR}": _object(id=TEXT, version=NUMBER, modified=FLAG, restarted=FLAG, warnings=NAMES),
    f"GET {_SUPERVISOR}/history": {"type": "object", "additionalProperties": VERSIONS},
    f"GET {_SUPERVISOR}/{{supervisor}}": ANY,
    f"GET {_SUPERVISOR}/{{supervisor}}/status": REPORT,
    f"GET {_SUPERVISOR}/{{supervisor}}/health": _object(healthy=FLAG),
    f"GET {_SUPERVISOR}/{{supervisor}}/stats": ANY,
    f"GET {_SUPERVISOR}/{{supervisor}}/parseErrors": _list(ANY),
    f"GET {_SUPERVISOR}/{{supervisor}}/history": VERSIONS,
    f"GET {_TASK}": _object(task=TEXT, payload=ANY),
    f"GET {_TASK}/status": _object(task=TEXT, status=TASK),
    f"GET {_TASK}/reports": ANY,
    f"POST {_TASK}/shutdown": _object(task=TEXT),
    "GET /druid/indexer/v1/workers": _list(_object(worker=ANY, currCapacityUsed=NUMBER, runningTasks=NAMES)),
    "GET /druid/indexer/v1/totalWorkerCapacity": _object(currentClusterCapacity=NUMBER, usedClusterCapacity=NUMBER),
    "GET /druid/indexer/v1/isLeader": _object(leader=FLAG),
    "GET /druid/coordinator/v1/metadata/segments": _list(SEGMENT),
    f"GET {_METADATA}": {**NAMES, "description": "names, or objects with ?full"},
    f"GET {_METADATA}/{{datasource}}": TABLE,
    f"GET {_METADATA}/{{datasource}}/segments": {**NAMES, "description": "ids, or segments with ?full"},
    f"GET {_METADATA}/{{datasource}}/segments/{{segment}}": SEGMENT,
    "GET /druid/coordinator/v1/datasources": NAMES,
    "POST /druid/coordinator/v1/datasources/{datasource}/markUnused": CHANGED,
    "POST /druid/coordinator/v1/datasources/{datasource}/markUsed": CHANGED,
    f"GET {_LOOKUPS}/config": NAMES,
    "GET /druid/v2/datasources": NAMES,
    "GET /druid/v2/datasources/{datasource}": _object(dimensions=NAMES, metrics=NAMES),
    "GET /druid/v2/datasources/{datasource}/dimensions": NAMES,
    "GET /druid/v2/datasources/{datasource}/metrics": NAMES,
    "POST /druid/v2": {**_list(ANY), "description": "as Druid answers that type of query"},
    "GET /siltstone/v1/supervisor/{supervisor}/audit": _list(_object(at=TEXT, action=TEXT, detail=ANY)),
    "GET /siltstone/v1/supervisor/{supervisor}/ledger": _list(
        _object(sequence=TEXT, published=TEXT, version=NUMBER, stream=TEXT, ranges=ANY, messages=ANY, rowsIn=NUMBER)
    ),
    "POST /siltstone/v1/verify/{table}": _object(table=TEXT, exact=FLAG, faults=NAMES, checked=ANY),
    "GET /siltstone/v1/quarantine/{table}": _object(table=TEXT, files=_list(ANY), next=TEXT),
    "POST /siltstone/v1/plan": _object(
        supervisor=TEXT,
        dataSource=TEXT,
        topic=TEXT,
        action=TEXT,
        problems=_list(ANY),
        warnings=NAMES,
        changes=_list(ANY),
        how=TEXT,
        committed=ANY,
        sample=ANY,
    ),
    "POST /siltstone/v1/quarantine/{table}/replay": _object(
        path=TEXT,
        replayedBy=TEXT,
        records=NUMBER,
        already=FLAG,
        rows=NUMBER,
        quarantined=NUMBER,
        counts=ANY,
        specVersion=NUMBER,
        version=NUMBER,
    ),
    "GET /siltstone/v1/quarantine/{table}/records": _object(
        table=TEXT, path=TEXT, rows=NUMBER, records=_list(ANY), next=NUMBER
    ),
    "GET /druid/worker/v1/tasks": NAMES,
}
"""By method and path: the JSON of a 200. What is not here answers with some JSON object."""
TASK_LISTS = tuple(
    f"GET /druid/indexer/v1/{kind}"
    for kind in ("tasks", "waitingTasks", "pendingTasks", "runningTasks", "completeTasks")
)
TEXTS = {
    "GET /metrics": "Prometheus' text format",
    f"GET {_TASK}/log": "the log as it is",
    "GET /druid/indexer/v1/leader": "the leader's address",
}
SQL_ANSWERS = {
    JSON: {"schema": {**_list(ANY), "description": "object: an object a row; array: a list a row, header rows first"}},
    "text/plain": {
        "schema": {**TEXT, "description": "objectLines, arrayLines: a row a line, an empty line at the end"}
    },
    "text/csv": {"schema": {**TEXT, "description": "csv"}},
    "application/vnd.apache.arrow.stream": {
        "schema": {**TEXT, "format": "binary", "description": "arrow: an IPC stream"}
    },
}


def describe(app: FastAPI) -> None:
    """Adds the answers to ``/openapi.json`` and the page ``/docs``, which needs nothing from elsewhere."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = made()
            for path, methods in document.get("paths", {}).items():
                for method, route in methods.items():
                    _describe(f"{method.upper()} {path}", route)
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # as FastAPI documents it

    @app.get("/docs", include_in_schema=False)
    def docs() -> Response:
        """The routes as a page."""
        return HTMLResponse(resources.files("server.api").joinpath("docs_page.html").read_text(encoding="utf-8"))


def _describe(name: str, route: dict[str, Any]) -> None:
    responses = route.setdefault("responses", {})
    # Nothing is validated by FastAPI: what is wrong is 400 with a text.
    responses.pop("422", None)
    is_query = "/druid/v2" in name and "datasources" not in name
    if name.startswith("DELETE /druid/v2"):
        responses.pop("200", None)
        responses["202"] = {"description": "it is being stopped"}
        if "/sql/" in name:
            responses["404"] = {"description": "none of that id runs"}
        return
    content: dict[str, Any] = {JSON: {"schema": _list(TASK) if name in TASK_LISTS else ANSWERS.get(name, ANY)}}
    if name in TEXTS:
        content = {"text/plain": {"schema": {**TEXT, "description": TEXTS[name]}}}
    elif name == "GET /siltstone/v1/quarantine/{table}/file":
        content = {"application/vnd.apache.parquet": {"schema": {**TEXT, "format": "binary"}}}
    elif name == "POST /druid/v2/sql":
        content = SQL_ANSWERS
    elif name.endswith("avatica-protobuf"):
        content = {"application/x-google-protobuf": {"schema": {**TEXT, "format": "binary"}}}
    if "202" in responses:
        responses["202"] = {"description": "it is begun"}
    else:
        responses["200"] = {"description": "the answer", "content": content}
    refusal = {"content": {JSON: {"schema": QUERY_ERROR if is_query else ERROR}}}
    responses["400"] = {"description": "the request is at fault", **refusal}
    if "{" in name:
        responses["404"] = {"description": "there is no such thing", "content": {JSON: {"schema": ERROR}}}
    responses["503"] = {"description": "not now: starting, no leader, or the database is away", **refusal}
