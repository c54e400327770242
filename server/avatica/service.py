"""Answers Avatica's requests, as dictionaries of its JSON: what a JDBC driver asks, from opening to the last frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from query.errors import InvalidQuery, QueryError
from query.model import PlannedQuery, ResultColumn, SqlRequest
from query.sql.parameters import count_markers
from query.sql.types import VARCHAR, SqlType
from segments.errors import ServiceError
from server.avatica import metadata
from server.avatica.connections import Connection, Connections, NoSuchConnection, Refusal, Statement
from server.avatica.frames import Answer, Frames, StaticFrames
from server.avatica.parameters import parameters_of, planned_with_guesses
from server.avatica.types import described

Message = dict[str, Any]
NO_SUCH_CONNECTION, UNKNOWN = 1, -1
_BEYOND = 2**31 - 1
_IS_JSON = "is json"
_READING_OUT = ("fetch", "connectionSync", "closeStatement", "closeConnection", "commit", "rollback")
"""What is answered also when nothing new is begun."""


class Queries(Protocol):
    """Who plans and runs statements; safe from any thread."""

    def execute(self, request: SqlRequest) -> Answer:
        """Plans and starts a statement. Raises QueryError."""
        ...

    def prepare(self, request: SqlRequest) -> PlannedQuery:
        """Plans a statement and runs nothing. Raises QueryError."""
        ...


class AvaticaService:
    """One server's side of the protocol; safe from any thread. ``address`` is told in every answer."""

    def __init__(
        self, queries: Queries, connections: Connections, address: str, version: str, functions: Sequence[str]
    ) -> None:
        self._queries = queries
        self._connections = connections
        self._metadata = {"response": "rpcMetadata", "serverAddress": address}
        self._version = version
        self._functions = ",".join(functions)
        self._handlers: dict[str, Callable[[Message], Message]] = {
            "openConnection": self._open_connection,
            "closeConnection": self._close_connection,
            "connectionSync": self._connection_sync,
            "databaseProperties": self._database_properties,
            "createStatement": self._create_statement,
            "closeStatement": self._close_statement,
            "prepare": self._prepare,
            "execute": self._execute,
            "prepareAndExecute": self._prepare_and_execute,
            "fetch": self._fetch,
            "syncResults": self._sync_results,
            "commit": lambda request: {"response": "commit"},
            "rollback": lambda request: {"response": "rollback"},
            "getCatalogs": self._catalogs,
            "getSchemas": lambda request: self._asked(request, metadata.schemas_sql(request)),
            "getTables": lambda request: self._asked(request, metadata.tables_sql(request)),
            "getColumns": lambda request: self._asked(request, metadata.columns_sql(request)),
            "getTableTypes": self._table_types,
            "getTypeInfo": self._type_info,
        }

    def answer(self, request: Any, is_json: bool = True) -> tuple[int, Message]:
        """The HTTP status, 200 or 500 as drivers know it, and the answer; every failure is an answer, too.

        ``is_json``: numbers that JSON lacks become text.
        """
        try:
            kind = request.get("request") if isinstance(request, dict) else None
            handler = self._handlers.get(str(kind))
            if handler is None:
                known = ", ".join(self._handlers)
                raise InvalidQuery(f"request {kind!r} cannot be answered; only queries are: {known}")
            if self._connections.refusal and kind not in _READING_OUT:
                raise Refusal(self._connections.refusal)
            return 200, handler(request | {_IS_JSON: is_json}) | {"rpcMetadata": self._metadata}
        except ServiceError as error:
            return 500, self.failure(error)

    def failure(self, error: ServiceError) -> Message:
        """An error as drivers read it."""
        told = f"{error.legacy_code}: {error.message}" if isinstance(error, QueryError) else str(error)
        return {
            "response": "error",
            "exceptions": [f"{type(error).__name__}: {told}"],
            "errorMessage": told,
            "errorCode": NO_SUCH_CONNECTION if isinstance(error, NoSuchConnection) else UNKNOWN,
            "sqlState": "42000" if isinstance(error, InvalidQuery) else "00000",
            "severity": "ERROR",
            "rpcMetadata": self._metadata,
        }

    # -- connections

    def _open_connection(self, request: Message) -> Message:
        name, info = request.get("connectionId"), request.get("info") or {}
        if not isinstance(name, str) or not name or not isinstance(info, dict):
            raise InvalidQuery("openConnection: a connectionId as text and info as an object are needed")
        self._connections.open(name, info)
        return {"response": "openConnection"}

    def _close_connection(self, request: Message) -> Message:
        self._connections.close(request.get("connectionId"))
        return {"response": "closeConnection"}

    def _connection_sync(self, request: Message) -> Message:
        connection = self._connection(request)
        given = _object(request, "connProps")
        # Only these are remembered; the others have one value here.
        names = [name for name in ("catalog", "schema") if isinstance(given.get(name), str)]
        connection.properties |= {name: given[name] for name in names}
        fixed = {"connProps": "connPropsImpl", "autoCommit": True, "readOnly": True, "transactionIsolation": 0}
        props = {"catalog": "druid", "schema": ""} | connection.properties | fixed | {"dirty": False}
        return {"response": "connectionSync", "connProps": props}

    def _database_properties(self, request: Message) -> Message:
        self._connection(request)
        told = {
            "GET_DATABASE_PRODUCT_NAME": "Siltstone",
            "GET_DATABASE_PRODUCT_VERSION": self._version,
            "GET_DATABASE_MAJOR_VERSION": int(self._version.split(".")[0]),
            "GET_DATABASE_MINOR_VERSION": int(self._version.split(".")[1]),
            "GET_DEFAULT_TRANSACTION_ISOLATION": 0,
            "GET_NUMERIC_FUNCTIONS": self._functions,
            "GET_S_Q_L_KEYWORDS": "EXPLAIN,PLAN,UNNEST,PIVOT,UNPIVOT",
        }
        return {"response": "databaseProperties", "map": told}

    # -- statements

    def _create_statement(self, request: Message) -> Message:
        connection = self._connection(request)
        statement = self._connections.create_statement(connection)
        return {"response": "createStatement", "connectionId": connection.id, "statementId": statement.id}

    def _close_statement(self, request: Message) -> Message:
        self._connections.close_statement(self._connection(request), request.get("statementId"))
        return {"response": "closeStatement"}

    def _prepare(self, request: Message) -> Message:
        connection, sql = self._connection(request), _sql_of(request)
        markers = count_markers(sql)
        planned = planned_with_guesses(
            markers, lambda guesses: self._queries.prepare(SqlRequest(sql, _context(connection), tuple(guesses)))
        )
        statement = self._connections.create_statement(connection)
        statement.sql, statement.columns = sql, planned.result_columns
        handle = {
            "connectionId": connection.id,
            "id": statement.id,
            "signature": _signature(sql, statement.columns, markers),
        }
        return {"response": "prepare", "statement": handle}

    def _execute(self, request: Message) -> Message:
        handle = _object(request, "statementHandle")
        connection = self._connections.get(handle.get("connectionId"))
        statement = self._connections.statement(connection, handle.get("id"))
        if statement is None:
            return {"response": "executeResults", "missingStatement": True, "results": []}
        if statement.sql is None:
            raise InvalidQuery("execute: the statement was not prepared")
        bound = parameters_of(request.get("parameterValues"))
        most = _most(request, "maxRowsInFirstFrame", "maxRowCount")
        return self._run(connection, statement, SqlRequest(statement.sql, _context(connection), bound), most, request)

    def _prepare_and_execute(self, request: Message) -> Message:
        connection, sql = self._connection(request), _sql_of(request)
        statement = self._connections.statement(connection, request.get("statementId"))
        if statement is None:
            return {"response": "executeResults", "missingStatement": True, "results": []}
        statement.columns = ()
        context, total = _context(connection), _most(request, "maxRowsTotal", "maxRowCount")
        if total:
            context["sqlOuterLimit"] = total
        most = _most(request, "maxRowsInFirstFrame")
        return self._run(connection, statement, SqlRequest(sql, context), most, request)

    def _run(
        self, connection: Connection, statement: Statement, query: SqlRequest, most: int, request: Message
    ) -> Message:
        statement.end()
        frames = Frames(self._queries.execute(query), statement.columns, request[_IS_JSON])
        statement.frames = frames
        result = self._first_frame(connection, statement, most, _signature(query.query, frames.columns, 0))
        return {"response": "executeResults", "missingStatement": False, "results": [result]}

    def _first_frame(self, connection: Connection, statement: Statement, most: int, signature: Message) -> Message:
        return {
            "response": "resultSet",
            "connectionId": connection.id,
            "statementId": statement.id,
            "ownStatement": True,
            "signature": signature,
            "firstFrame": self._frame(statement, most),
            "updateCount": -1,
            "rpcMetadata": self._metadata,
        }

    def _fetch(self, request: Message) -> Message:
        connection = self._connection(request)
        statement = self._connections.statement(connection, request.get("statementId"))
        if statement is None:
            return {"response": "fetch", "frame": None, "missingStatement": True, "missingResults": False}
        frames = statement.frames
        if frames is None:
            why = f": {statement.ended}" if statement.ended else ""
            # Not "missing results": a driver would ask to run the statement again and skip rows of another answer.
            raise InvalidQuery(f"the statement has no results{why}; run it again")
        expected, found = request.get("offset"), getattr(frames, "offset", 0)
        if expected not in (None, found):
            raise InvalidQuery(f"fetch: the next row is {found}, rows from {expected} on cannot be read; run it again")
        frame = self._frame(statement, _most(request, "fetchMaxRowCount"))
        return {"response": "fetch", "frame": frame, "missingStatement": False, "missingResults": False}

    def _frame(self, statement: Statement, most: int) -> Message:
        frames = statement.frames
        assert frames is not None
        bound = self._connections.limits.frame_rows
        try:
            offset, done, rows = frames.next(min(most, bound) if most else bound)
        except ServiceError:
            statement.end("it failed")
            raise
        if done:
            statement.end()
        return {"offset": offset, "done": done, "rows": rows}

    def _sync_results(self, request: Message) -> Message:
        raise InvalidQuery("the results are gone, and the rows left would be those of another answer; run it again")

    # -- metadata

    def _asked(self, request: Message, sql: str) -> Message:
        connection = self._connection(request)
        statement = self._connections.create_statement(connection)
        try:
            answer = self._run(connection, statement, SqlRequest(sql), 0, request)
        except ServiceError:
            self._connections.close_statement(connection, statement.id)
            raise
        if statement.frames is None:
            self._connections.close_statement(connection, statement.id)
        result: Message = answer["results"][0]
        return result

    def _catalogs(self, request: Message) -> Message:
        return self._told(request, (("TABLE_CAT", VARCHAR),), [["druid"]])

    def _table_types(self, request: Message) -> Message:
        return self._told(request, (("TABLE_TYPE", VARCHAR),), [[name] for name in metadata.TABLE_TYPES])

    def _type_info(self, request: Message) -> Message:
        return self._told(request, metadata.TYPE_INFO, metadata.type_rows())

    def _told(self, request: Message, columns: Sequence[tuple[str, SqlType]], rows: list[list[Any]]) -> Message:
        connection = self._connection(request)
        statement = self._connections.create_statement(connection)
        statement.frames = StaticFrames(rows)
        described_ = [ResultColumn(name, kind.druid, kind.name, kind) for name, kind in columns]
        result = self._first_frame(connection, statement, 0, _signature("", described_, 0))
        self._connections.close_statement(connection, statement.id)
        return result

    def _connection(self, request: Message) -> Connection:
        return self._connections.get(request.get("connectionId"))


def _context(connection: Connection) -> dict[str, object]:
    return dict(connection.context)


def _object(request: Message, name: str) -> Message:
    value = request.get(name) or {}
    if not isinstance(value, dict):
        raise InvalidQuery(f"{request.get('request')}: {name} must be an object")
    return value


def _sql_of(request: Message) -> str:
    sql = request.get("sql")
    if not isinstance(sql, str) or not sql.strip():
        raise InvalidQuery("sql: a statement as text is needed")
    return sql


def _most(request: Message, *names: str) -> int:
    """The first of these bounds that is set; 0 without one."""
    for name in names:
        value = request.get(name)
        if isinstance(value, int) and value > 0:
            return min(value, _BEYOND)
    return 0


def _signature(sql: str, columns: Sequence[ResultColumn], markers: int) -> Message:
    parameter = {
        "signed": False,
        "precision": 0,
        "scale": 0,
        "parameterType": 1111,
        "typeName": "OTHER",
        "className": "java.lang.Object",
    }
    return {
        "columns": [
            described(at, column.name, column.type, column.name != "__time") for at, column in enumerate(columns)
        ],
        "sql": sql,
        "parameters": [parameter | {"name": f"?{at}"} for at in range(markers)],
        "cursorFactory": {"style": "LIST", "clazz": None, "fieldNames": None},
        "statementType": "SELECT",
    }
