"""Avatica's protocol without a driver: bounds, idle results, lost replies, and its protocol buffers."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from ingest.clock import SystemClock
from query.errors import InvalidQuery, QueryCancelled
from query.model import PlannedQuery, SqlParameter, SqlRequest
from query.sql.catalogue import ColumnDef, MemoryCatalogue, TableDef
from query.sql.parameters import count_markers
from query.sql.planner import plan
from query.sql.types import BIGINT, DOUBLE, TIMESTAMP, VARCHAR
from server.avatica import messages
from server.avatica.connections import AvaticaLimits, Connections
from server.avatica.parameters import parameters_of
from server.avatica.protobuf import Malformed, decode, encode
from server.avatica.service import AvaticaService
from server.avatica.translation import bytes_of, request_of

TABLES = MemoryCatalogue(
    [TableDef("t", (ColumnDef("__time", TIMESTAMP), ColumnDef("n", BIGINT), ColumnDef("d", DOUBLE)))]
)
Message = dict[str, Any]


class Clock(SystemClock):
    """A clock that a test moves."""

    now = 0

    def monotonic_ms(self) -> int:
        return self.now


class Rows:
    """The answer to any statement: its batches, or one that comes only when the query is cancelled."""

    def __init__(self, planned: PlannedQuery, batches: int, hangs: bool) -> None:
        self.planned = planned
        self.cancelled = threading.Event()
        self.is_closed = False
        self._batches = batches
        self._hangs = hangs

    def batches(self) -> Iterator[pa.RecordBatch]:
        kinds = [pa.float64() if c.type == DOUBLE else pa.int64() for c in self.planned.result_columns]
        for number in range(self._batches):
            arrays = [pa.array([3 * number + at for at in range(3)], kind) for kind in kinds]
            yield pa.RecordBatch.from_arrays(arrays, names=[str(at) for at in range(len(kinds))])
        if self._hangs:
            assert self.cancelled.wait(10)
            raise QueryCancelled("cancelled")

    def cancel(self) -> None:
        self.cancelled.set()

    def close(self) -> None:
        self.is_closed = True


class Queries:
    """Plans for real; remembers what was asked and with what."""

    def __init__(self) -> None:
        self.batches = 3
        self.hangs = False
        self.asked: list[SqlRequest] = []
        self.answers: list[Rows] = []

    def execute(self, request: SqlRequest) -> Rows:
        self.asked.append(request)
        self.answers.append(Rows(plan(request, TABLES, 0), self.batches, self.hangs))
        return self.answers[-1]

    def prepare(self, request: SqlRequest) -> PlannedQuery:
        return plan(request, TABLES, 0)


class Server:
    """A service with one open connection ``c``."""

    def __init__(self, **limits: int) -> None:
        self.queries = Queries()
        self.clock = Clock()
        self.connections = Connections(AvaticaLimits(**limits), self.clock)
        self.service = AvaticaService(self.queries, self.connections, "here:1", "1.2.3", ["ABS"])
        self.ask("openConnection", info={"user": "me", "password": "x", "sqlTimeZone": "Etc/UTC"})

    def ask(self, request: str, status: int = 200, **more: Any) -> Message:
        got, answer = self.service.answer({"request": request, "connectionId": "c"} | more)
        assert got == status, answer
        return answer

    def statement(self) -> int:
        number = self.ask("createStatement")["statementId"]
        assert isinstance(number, int)
        return number

    def run(self, statement: int, sql: str = "SELECT n FROM t", **more: Any) -> Message:
        answer = self.ask("prepareAndExecute", statementId=statement, sql=sql, **more)
        result: Message = answer["results"][0]
        return result


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server(connections=2, statements=3, frame_rows=4, idle_ms=1_000, results_idle_ms=100)
    yield found
    found.connections.stop()


def test_frames_join_to_the_whole_answer_and_the_statement_lets_go_of_its_query(server: Server) -> None:
    statement = server.statement()
    result = server.run(statement)
    frames = [result["firstFrame"]]
    while not frames[-1]["done"]:
        at = frames[-1]["offset"] + len(frames[-1]["rows"])
        frames.append(server.ask("fetch", statementId=statement, offset=at, fetchMaxRowCount=100)["frame"])
    assert [row for frame in frames for row in frame["rows"]] == [[n] for n in range(9)]
    assert [frame["offset"] for frame in frames] == [0, 4, 8]
    assert server.queries.answers[0].is_closed
    assert server.queries.asked[0].context == {"sqlTimeZone": "Etc/UTC"}


def test_rows_asked_for_twice_are_refused_never_skipped(server: Server) -> None:
    statement = server.statement()
    server.run(statement)
    refused = server.ask("fetch", 500, statementId=statement, offset=0, fetchMaxRowCount=100)
    assert "the next row is 4" in refused["errorMessage"]
    assert "run it again" in server.ask("syncResults", 500, statementId=statement, offset=4)["errorMessage"]


def test_the_clients_bounds_hold(server: Server) -> None:
    statement = server.statement()
    assert len(server.run(statement, maxRowsInFirstFrame=2)["firstFrame"]["rows"]) == 2
    server.run(statement, maxRowsTotal=5)
    assert server.queries.asked[-1].context["sqlOuterLimit"] == 5
    assert server.queries.answers[0].is_closed, "a statement has one answer at a time"


def test_too_many_connections_and_statements_are_refused_by_name(server: Server) -> None:
    server.ask("openConnection", connectionId="d")
    assert "jdbc.connections_max" in server.ask("openConnection", 500, connectionId="e")["errorMessage"]
    server.ask("openConnection", connectionId="d")
    numbers = [server.statement() for _ in range(3)]
    assert "jdbc.statements_max" in server.ask("createStatement", 500)["errorMessage"]
    server.ask("closeStatement", statementId=numbers[0])
    server.statement()
    server.ask("closeConnection")
    assert server.ask("createStatement", 500)["errorCode"] == 1, "by which a driver knows to connect again"


def test_what_is_idle_is_closed_and_says_so(server: Server) -> None:
    statement = server.statement()
    server.run(statement)
    server.clock.now = 101
    server.connections.sweep()
    assert server.queries.answers[0].is_closed
    told = server.ask("fetch", 500, statementId=statement, offset=4, fetchMaxRowCount=4)["errorMessage"]
    assert "nobody fetched" in told and "run it again" in told
    server.clock.now = 5_000
    server.connections.sweep()
    assert len(server.connections) == 0


def test_a_statement_that_is_being_read_is_not_idle_and_closing_it_ends_its_query(server: Server) -> None:
    server.queries.hangs, server.queries.batches = True, 0
    statement = server.statement()
    answers: list[Any] = []
    request = {"request": "prepareAndExecute", "connectionId": "c", "statementId": statement, "sql": "SELECT n FROM t"}
    reader = threading.Thread(target=lambda: answers.append(server.service.answer(request)))
    reader.start()
    connection = server.connections.get("c")
    while not connection.statements[statement].is_busy:
        assert reader.is_alive()
    server.clock.now = 10_000
    server.connections.sweep()
    assert not server.queries.answers[0].cancelled.is_set()
    server.ask("closeStatement", statementId=statement)
    reader.join(10)
    assert answers[0][0] == 500 and "cancelled" in answers[0][1]["errorMessage"]


def test_a_server_that_stops_lets_results_be_read_out_and_begins_nothing_new(server: Server) -> None:
    statement = server.statement()
    server.run(statement, maxRowsInFirstFrame=2)
    server.connections.refusal = "this server is stopping"
    assert server.connections.open_results == 1
    for kind in ("openConnection", "createStatement", "prepareAndExecute", "getTables"):
        told = server.ask(kind, 500, statementId=statement, sql="SELECT n FROM t")
        assert "is stopping" in told["errorMessage"] and told["errorCode"] == -1, "a driver opens nothing anew"
    server.ask("fetch", statementId=statement, offset=2, fetchMaxRowCount=2)
    server.connections.end_results("the server is stopping: http.stop_s was over")
    told = server.ask("fetch", 500, statementId=statement, offset=4, fetchMaxRowCount=2)["errorMessage"]
    assert "http.stop_s" in told
    assert server.connections.open_results == 0 and server.queries.answers[0].is_closed


def test_an_unknown_statement_is_missing_and_an_unknown_request_is_named(server: Server) -> None:
    assert server.ask("fetch", statementId=99, offset=0)["missingStatement"] is True
    assert server.ask("execute", statementHandle={"connectionId": "c", "id": 99})["missingStatement"] is True
    assert "executeBatch" in server.ask("executeBatch", 500)["errorMessage"]
    odd: list[Any] = [None, [], "x", {"request": 3}]
    for wrong in odd:
        assert server.service.answer(wrong)[0] == 500


def test_a_prepared_statement_keeps_the_types_it_announced(server: Server) -> None:
    handle = server.ask("prepare", sql="SELECT ?, n FROM t WHERE n > ?")["statement"]
    types = [column["type"]["name"] for column in handle["signature"]["columns"]]
    assert types == ["VARCHAR", "BIGINT"] and len(handle["signature"]["parameters"]) == 2
    bound = [{"type": "LONG", "value": 5}, {"type": "LONG", "value": 1}]
    answer = server.ask("execute", statementHandle={"connectionId": "c", "id": handle["id"]}, parameterValues=bound)
    assert answer["results"][0]["firstFrame"]["rows"][0] == ["0", 0]
    assert server.queries.asked[-1].parameters == (SqlParameter("BIGINT", 5), SqlParameter("BIGINT", 1))


@pytest.mark.parametrize("sql", ["SELECT TIME_FLOOR(__time, ?) FROM t", "SELECT n FROM t LIMIT ?", "SELECT n FROM t"])
def test_statements_are_prepared_whatever_their_parameters_stand_for(server: Server, sql: str) -> None:
    assert server.ask("prepare", sql=sql)["statement"]["signature"]["columns"]


def test_parameters_of_every_kind_are_read_and_others_named() -> None:
    given_ = [
        {"type": "INTEGER", "value": 1},
        {"type": "FLOAT", "value": 0.5},
        {"type": "BOOLEAN", "value": True},
        {"type": "STRING", "value": "s"},
        {"type": "JAVA_SQL_TIMESTAMP", "value": 86_400_123},
        {"type": "JAVA_SQL_DATE", "value": 1},
        {"type": "BIG_DECIMAL", "value": "1.5"},
        {"type": "NUMBER", "value": 7},
        {"type": "NULL", "value": None},
        {"type": "ARRAY", "value": [{"type": "LONG", "value": 1}, 2]},
    ]
    assert [(one.type, one.value) for one in parameters_of(given_)] == [
        ("BIGINT", 1), ("DOUBLE", 0.5), ("BOOLEAN", True), ("VARCHAR", "s"),
        ("TIMESTAMP", "1970-01-02 00:00:00.123"), ("DATE", "1970-01-02"), ("DOUBLE", 1.5), ("BIGINT", 7),
        ("VARCHAR", None), ("ARRAY", [1, 2]),
    ]  # fmt: skip
    refused: list[tuple[list[Any], str]] = [
        ([None], "not set"),
        ([{"type": "BYTE_STRING", "value": "x"}], "BYTE_STRING"),
    ]
    for wrong, said in refused:
        with pytest.raises(InvalidQuery, match=said):
            parameters_of(wrong)
    assert count_markers("SELECT '?', \"?\" -- ?\n WHERE 1 = ? OR 2 IN (?, ?)") == 3


def test_metadata_is_asked_by_patterns_that_cannot_escape_their_quotes(server: Server) -> None:
    server.ask("getColumns", schemaPattern="druid", tableNamePattern="o'%", columnNamePattern=r"a\_b")
    asked = server.queries.asked[-1].query
    assert "TABLE_NAME LIKE 'o''%' ESCAPE '\\'" in asked and r"COLUMN_NAME LIKE 'a\_b'" in asked
    server.ask("getTables", catalog="druid", typeList=["TABLE", "VIEW"])
    assert "TABLE_TYPE IN ('TABLE', 'VIEW')" in server.queries.asked[-1].query
    assert server.ask("getTypeInfo")["firstFrame"]["done"] is True


# -- protocol buffers


def wired(name: str, wrapped: bytes) -> bytes:
    return encode(
        messages.WIRE_MESSAGE, {"name": f"org.apache.calcite.avatica.proto.Requests${name}", "wrapped": wrapped}
    )


def test_fields_are_spelled_as_the_format_says() -> None:
    # From the format's own documentation: field 1 holding 150, field 2 the text "testing".
    assert encode(messages.AVATICA_TYPE, {"id": 150, "name": "testing"}).hex() == "089601120774657374696e67"
    assert encode(messages.TYPED_VALUE, {"number": -2}).hex() == "2003"
    assert encode(messages.RESULT_SET, {"updateCount": -1}).hex() == "30ffffffffffffffffff01"
    assert encode(messages.TYPED_VALUE, {"double": 1.0}).hex() == "31000000000000f03f"
    assert decode(messages.AVATICA_TYPE, bytes.fromhex("089601120774657374696e67")) == {"id": 150, "name": "testing"}


@given(
    st.integers(-(2**63), 2**63 - 1),
    st.text(),
    st.booleans(),
    st.floats(allow_nan=False),
    st.lists(st.text(max_size=5)),
)
def test_messages_are_read_back_as_they_were_written(
    number: int, text: str, yes: bool, real: float, many: list[str]
) -> None:
    value = {"number": number, "string": text, "bool": yes, "double": real, "array": [{"string": one} for one in many]}
    read = decode(messages.TYPED_VALUE, encode(messages.TYPED_VALUE, value))
    defaults = {"number": 0, "string": "", "bool": False, "double": 0.0, "array": []}
    assert defaults | read == value | {"array": [{"string": one} if one else {} for one in many]}


@given(st.binary(max_size=60))
def test_bytes_that_are_no_message_are_malformed_or_read_but_never_a_crash(content: bytes) -> None:
    try:
        request_of(wired("TablesRequest", content))
        request_of(content)
    except Malformed:
        pass


def test_a_null_pattern_and_an_empty_one_differ() -> None:
    plain = request_of(wired("TablesRequest", encode(messages.REQUESTS["TablesRequest"][1], {"connectionId": "c"})))
    assert plain == {"request": "getTables", "connectionId": "c"}
    told = {"connectionId": "c", "has_catalog": True, "has_typeList": True}
    empty = request_of(wired("TablesRequest", encode(messages.REQUESTS["TablesRequest"][1], told)))
    assert empty["catalog"] == "" and empty["typeList"] == []


def test_cells_of_every_kind_have_their_wire_type(server: Server) -> None:
    answer = server.ask("createStatement")
    result = server.run(answer["statementId"], "SELECT n, d FROM t")
    big = 2**70
    result["firstFrame"]["rows"] = [[None, True], [1, math.inf], [big, "x"], [[1, None], 0]]
    content = bytes_of(result | {"response": "resultSet"})
    read = decode(messages.RESULT_SET, decode(messages.WIRE_MESSAGE, content)["wrapped"])
    cells = [[cell for cell in row["value"]] for row in read["firstFrame"]["rows"]]
    kinds = [
        [messages.REPS[cell["scalar"].get("type", 0)] if "scalar" in cell else "[]" for cell in row] for row in cells
    ]
    assert kinds == [["NULL", "BOOLEAN"], ["LONG", "DOUBLE"], ["BIG_DECIMAL", "STRING"], ["[]", "LONG"]]
    assert cells[2][0]["scalar"]["string"] == str(big) and len(cells[3][0]["array"]) == 2
    assert read["signature"]["columns"][0]["type"]["id"] == -5 & 0xFFFFFFFF and read["updateCount"] == -1


def test_numbers_that_json_lacks_are_text_only_in_json() -> None:
    from server.avatica.types import values

    array = pa.array([math.nan, -math.inf, 1.5, None])
    assert values(array, DOUBLE, "UTC", True) == ["NaN", "-Infinity", 1.5, None]
    assert values(array, DOUBLE, "UTC", False)[1] == -math.inf
    assert values(pa.array([["a"], [], ["a", None]]), VARCHAR.__class__("VARCHAR", multi=True), "UTC", True) == [
        "a",
        None,
        '["a",null]',
    ]
