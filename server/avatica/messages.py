"""Tables of Avatica's protocol buffers; fields bear the names that the JSON of the protocol has for them."""

from __future__ import annotations

from server.avatica.protobuf import Repeated, Scalar, Table

UINT, INT, SINT, BOOL = Scalar.UINT, Scalar.INT, Scalar.SINT, Scalar.BOOL
DOUBLE, TEXT, BYTES = Scalar.DOUBLE, Scalar.TEXT, Scalar.BYTES

REPS = (
    "PRIMITIVE_BOOLEAN",
    "PRIMITIVE_BYTE",
    "PRIMITIVE_CHAR",
    "PRIMITIVE_SHORT",
    "PRIMITIVE_INT",
    "PRIMITIVE_LONG",
    "PRIMITIVE_FLOAT",
    "PRIMITIVE_DOUBLE",
    "BOOLEAN",
    "BYTE",
    "CHARACTER",
    "SHORT",
    "INTEGER",
    "LONG",
    "FLOAT",
    "DOUBLE",
    "JAVA_SQL_TIME",
    "JAVA_SQL_TIMESTAMP",
    "JAVA_SQL_DATE",
    "JAVA_UTIL_DATE",
    "BYTE_STRING",
    "STRING",
    "NUMBER",
    "OBJECT",
    "NULL",
    "BIG_INTEGER",
    "BIG_DECIMAL",
    "ARRAY",
    "STRUCT",
    "MULTISET",
)
"""By their numbers on the wire."""
STYLES = ("OBJECT", "RECORD", "RECORD_PROJECTION", "ARRAY", "LIST", "MAP")
ERROR_SEVERITY = 2

WIRE_MESSAGE = Table("WireMessage", {1: ("name", TEXT), 2: ("wrapped", BYTES)})
RPC_METADATA = Table("RpcMetadata", {1: ("serverAddress", TEXT)})
TYPED_VALUE = Table("TypedValue")
TYPED_VALUE.fields.update(
    {
        1: ("type", UINT),
        2: ("bool", BOOL),
        3: ("string", TEXT),
        4: ("number", SINT),
        5: ("bytes", BYTES),
        6: ("double", DOUBLE),
        7: ("null", BOOL),
        8: ("array", Repeated(TYPED_VALUE)),
        9: ("componentType", UINT),
        10: ("implicitlyNull", BOOL),
    }
)
CONNECTION_PROPERTIES = Table(
    "ConnectionProperties",
    {
        1: ("dirty", BOOL),
        2: ("autoCommit", BOOL),
        7: ("hasAutoCommit", BOOL),
        3: ("readOnly", BOOL),
        8: ("hasReadOnly", BOOL),
        4: ("transactionIsolation", UINT),
        5: ("catalog", TEXT),
        6: ("schema", TEXT),
    },
)
AVATICA_TYPE = Table("AvaticaType", {1: ("id", UINT), 2: ("name", TEXT), 3: ("rep", UINT)})
AVATICA_TYPE.fields[5] = ("component", AVATICA_TYPE)
COLUMN = Table(
    "ColumnMetaData",
    {
        1: ("ordinal", UINT),
        2: ("autoIncrement", BOOL),
        3: ("caseSensitive", BOOL),
        4: ("searchable", BOOL),
        5: ("currency", BOOL),
        6: ("nullable", UINT),
        7: ("signed", BOOL),
        8: ("displaySize", UINT),
        9: ("label", TEXT),
        10: ("columnName", TEXT),
        11: ("schemaName", TEXT),
        12: ("precision", UINT),
        13: ("scale", UINT),
        14: ("tableName", TEXT),
        15: ("catalogName", TEXT),
        16: ("readOnly", BOOL),
        17: ("writable", BOOL),
        18: ("definitelyWritable", BOOL),
        19: ("columnClassName", TEXT),
        20: ("type", AVATICA_TYPE),
    },
)
PARAMETER = Table(
    "AvaticaParameter",
    {
        1: ("signed", BOOL),
        2: ("precision", UINT),
        3: ("scale", UINT),
        4: ("parameterType", UINT),
        5: ("typeName", TEXT),
        6: ("className", TEXT),
        7: ("name", TEXT),
    },
)
CURSOR_FACTORY = Table("CursorFactory", {1: ("style", UINT), 2: ("clazz", TEXT)})
SIGNATURE = Table(
    "Signature",
    {
        1: ("columns", Repeated(COLUMN)),
        2: ("sql", TEXT),
        3: ("parameters", Repeated(PARAMETER)),
        4: ("cursorFactory", CURSOR_FACTORY),
        5: ("statementType", UINT),
    },
)
HANDLE = Table("StatementHandle", {1: ("connectionId", TEXT), 2: ("id", UINT), 3: ("signature", SIGNATURE)})
COLUMN_VALUE = Table(
    "ColumnValue", {2: ("array", Repeated(TYPED_VALUE)), 3: ("hasArray", BOOL), 4: ("scalar", TYPED_VALUE)}
)
ROW = Table("Row", {1: ("value", Repeated(COLUMN_VALUE))})
FRAME = Table("Frame", {1: ("offset", UINT), 2: ("done", BOOL), 3: ("rows", Repeated(ROW))})
RESULT_SET = Table(
    "ResultSetResponse",
    {
        1: ("connectionId", TEXT),
        2: ("statementId", UINT),
        3: ("ownStatement", BOOL),
        4: ("signature", SIGNATURE),
        5: ("firstFrame", FRAME),
        6: ("updateCount", INT),
        7: ("rpcMetadata", RPC_METADATA),
    },
)
_PROPERTY = Table("DatabaseProperty", {1: ("name", TEXT), 2: ("functions", Repeated(TEXT))})
_PROPERTY_ELEMENT = Table("DatabasePropertyElement", {1: ("key", _PROPERTY), 2: ("value", TYPED_VALUE)})


def _only_connection(name: str) -> Table:
    return Table(name, {1: ("connectionId", TEXT)})


REQUESTS: dict[str, tuple[str, Table]] = {
    "CatalogsRequest": ("getCatalogs", _only_connection("CatalogsRequest")),
    "CloseConnectionRequest": ("closeConnection", _only_connection("CloseConnectionRequest")),
    "CloseStatementRequest": (
        "closeStatement",
        Table("CloseStatementRequest", {1: ("connectionId", TEXT), 2: ("statementId", UINT)}),
    ),
    "ColumnsRequest": (
        "getColumns",
        Table(
            "ColumnsRequest",
            {
                1: ("catalog", TEXT),
                2: ("schemaPattern", TEXT),
                3: ("tableNamePattern", TEXT),
                4: ("columnNamePattern", TEXT),
                5: ("connectionId", TEXT),
                6: ("has_catalog", BOOL),
                7: ("has_schemaPattern", BOOL),
                8: ("has_tableNamePattern", BOOL),
                9: ("has_columnNamePattern", BOOL),
            },
        ),
    ),
    "CommitRequest": ("commit", _only_connection("CommitRequest")),
    "ConnectionSyncRequest": (
        "connectionSync",
        Table("ConnectionSyncRequest", {1: ("connectionId", TEXT), 2: ("connProps", CONNECTION_PROPERTIES)}),
    ),
    "CreateStatementRequest": ("createStatement", _only_connection("CreateStatementRequest")),
    "DatabasePropertyRequest": ("databaseProperties", _only_connection("DatabasePropertyRequest")),
    "ExecuteRequest": (
        "execute",
        Table(
            "ExecuteRequest",
            {
                1: ("statementHandle", HANDLE),
                2: ("parameterValues", Repeated(TYPED_VALUE)),
                3: ("maxRowCount", UINT),
                4: ("has_parameterValues", BOOL),
                5: ("maxRowsInFirstFrame", INT),
            },
        ),
    ),
    "FetchRequest": (
        "fetch",
        Table(
            "FetchRequest",
            {
                1: ("connectionId", TEXT),
                2: ("statementId", UINT),
                3: ("offset", UINT),
                4: ("maxRowCount", UINT),
                5: ("fetchMaxRowCount", INT),
            },
        ),
    ),
    "OpenConnectionRequest": (
        "openConnection",
        Table(
            "OpenConnectionRequest",
            {1: ("connectionId", TEXT), 2: ("info", Repeated(Table("Entry", {1: ("key", TEXT), 2: ("value", TEXT)})))},
        ),
    ),
    "PrepareAndExecuteRequest": (
        "prepareAndExecute",
        Table(
            "PrepareAndExecuteRequest",
            {
                1: ("connectionId", TEXT),
                2: ("sql", TEXT),
                3: ("maxRowCount", UINT),
                4: ("statementId", UINT),
                5: ("maxRowsTotal", INT),
                6: ("maxRowsInFirstFrame", INT),
            },
        ),
    ),
    "PrepareRequest": (
        "prepare",
        Table(
            "PrepareRequest",
            {1: ("connectionId", TEXT), 2: ("sql", TEXT), 3: ("maxRowCount", UINT), 4: ("maxRowsTotal", INT)},
        ),
    ),
    "RollbackRequest": ("rollback", _only_connection("RollbackRequest")),
    "SchemasRequest": (
        "getSchemas",
        Table(
            "SchemasRequest",
            {
                1: ("catalog", TEXT),
                2: ("schemaPattern", TEXT),
                3: ("connectionId", TEXT),
                4: ("has_catalog", BOOL),
                5: ("has_schemaPattern", BOOL),
            },
        ),
    ),
    "SyncResultsRequest": (
        "syncResults",
        Table("SyncResultsRequest", {1: ("connectionId", TEXT), 2: ("statementId", UINT), 4: ("offset", UINT)}),
    ),
    "TableTypesRequest": ("getTableTypes", _only_connection("TableTypesRequest")),
    "TablesRequest": (
        "getTables",
        Table(
            "TablesRequest",
            {
                1: ("catalog", TEXT),
                2: ("schemaPattern", TEXT),
                3: ("tableNamePattern", TEXT),
                4: ("typeList", Repeated(TEXT)),
                6: ("has_typeList", BOOL),
                7: ("connectionId", TEXT),
                8: ("has_catalog", BOOL),
                9: ("has_schemaPattern", BOOL),
                10: ("has_tableNamePattern", BOOL),
            },
        ),
    ),
    "TypeInfoRequest": ("getTypeInfo", _only_connection("TypeInfoRequest")),
}
"""Name of the message to the request it is in JSON, and its table. A field with ``has_`` beside it may be null."""

RESPONSES: dict[str, Table] = {
    "openConnection": Table("OpenConnectionResponse", {1: ("rpcMetadata", RPC_METADATA)}),
    "closeConnection": Table("CloseConnectionResponse", {1: ("rpcMetadata", RPC_METADATA)}),
    "closeStatement": Table("CloseStatementResponse", {1: ("rpcMetadata", RPC_METADATA)}),
    "commit": Table("CommitResponse"),
    "rollback": Table("RollbackResponse"),
    "connectionSync": Table(
        "ConnectionSyncResponse", {1: ("connProps", CONNECTION_PROPERTIES), 2: ("rpcMetadata", RPC_METADATA)}
    ),
    "createStatement": Table(
        "CreateStatementResponse",
        {1: ("connectionId", TEXT), 2: ("statementId", UINT), 3: ("rpcMetadata", RPC_METADATA)},
    ),
    "databaseProperties": Table(
        "DatabasePropertyResponse", {1: ("map", Repeated(_PROPERTY_ELEMENT)), 2: ("rpcMetadata", RPC_METADATA)}
    ),
    "error": Table(
        "ErrorResponse",
        {
            1: ("exceptions", Repeated(TEXT)),
            7: ("hasExceptions", BOOL),
            2: ("errorMessage", TEXT),
            3: ("severity", UINT),
            4: ("errorCode", INT),
            5: ("sqlState", TEXT),
            6: ("rpcMetadata", RPC_METADATA),
        },
    ),
    "executeResults": Table(
        "ExecuteResponse",
        {1: ("results", Repeated(RESULT_SET)), 2: ("missingStatement", BOOL), 3: ("rpcMetadata", RPC_METADATA)},
    ),
    "fetch": Table(
        "FetchResponse",
        {
            1: ("frame", FRAME),
            2: ("missingStatement", BOOL),
            3: ("missingResults", BOOL),
            4: ("rpcMetadata", RPC_METADATA),
        },
    ),
    "prepare": Table("PrepareResponse", {1: ("statement", HANDLE), 2: ("rpcMetadata", RPC_METADATA)}),
    "resultSet": RESULT_SET,
}
"""By the name that the answer has in JSON."""
