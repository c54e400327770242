"""SQLAlchemy's dialect ``siltstone://HOST:PORT``: statements over the DB-API module, reflection by INFORMATION_SCHEMA.

``siltstone+https://`` asks over TLS; what follows a question mark in the URL becomes the context of every query
(``?sqlTimeZone=Etc/UTC&timeout=30000``). Read only: there are no transactions and no DDL.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from sqlalchemy import types
from sqlalchemy.engine import Connection, default
from sqlalchemy.engine.url import URL
from sqlalchemy.exc import NoSuchTableError
from sqlalchemy.sql import compiler, text

from siltstone import dbapi

SCHEMA = "druid"
_TYPES: dict[str, type[types.TypeEngine[Any]]] = {
    "BIGINT": types.BigInteger,
    "INTEGER": types.Integer,
    "DOUBLE": types.Double,
    "FLOAT": types.Float,
    "DECIMAL": types.Double,
    "VARCHAR": types.String,
    "CHAR": types.String,
    "BOOLEAN": types.Boolean,
    "TIMESTAMP": types.TIMESTAMP,
    "DATE": types.Date,
}


class SiltstoneTypes(compiler.GenericTypeCompiler):
    """Names of types inside CAST."""

    def visit_string(self, type_: Any, **kw: Any) -> str:
        return "VARCHAR"

    def visit_VARCHAR(self, type_: Any, **kw: Any) -> str:  # noqa: N802 (SQLAlchemy's name)
        return "VARCHAR"

    def visit_text(self, type_: Any, **kw: Any) -> str:
        return "VARCHAR"

    def visit_datetime(self, type_: Any, **kw: Any) -> str:
        return "TIMESTAMP"

    def visit_NUMERIC(self, type_: Any, **kw: Any) -> str:  # noqa: N802 (SQLAlchemy's name)
        return "DOUBLE"


class SiltstoneQuoting(compiler.IdentifierPreparer):
    """Every name in quotes: names are case-sensitive, and many of Druid's words are reserved."""

    def _requires_quotes(self, value: str) -> bool:
        return True


class SiltstoneDialect(default.DefaultDialect):
    """The dialect; SQLAlchemy finds it by the entry point of this name."""

    name = "siltstone"
    driver = "http"
    default_paramstyle = "qmark"
    type_compiler_cls = SiltstoneTypes
    preparer = SiltstoneQuoting
    supports_statement_cache = True
    supports_native_boolean = True
    supports_native_decimal = False
    supports_alter = False
    supports_sane_rowcount = False
    supports_multivalues_insert = False
    supports_default_values = False
    supports_empty_insert = False
    supports_simple_order_by_label = True
    postfetch_lastrowid = False
    returns_native_bytes = True
    max_identifier_length = 9_999
    default_schema_name = SCHEMA

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """The module that asks."""
        return dbapi

    def create_connect_args(self, url: URL) -> Any:
        """What ``dbapi.connect`` is called with."""
        scheme = "https" if url.drivername.endswith("+https") else "http"
        default_port = 443 if scheme == "https" else 8888
        host = url.host or "127.0.0.1"
        shown = f"[{host}]" if ":" in host else host
        context = {key: value for key, value in url.query.items() if isinstance(value, str)}
        return [f"{scheme}://{shown}:{url.port or default_port}"], {"context": context}

    def initialize(self, connection: Connection) -> None:
        """Nothing is asked for."""

    def do_rollback(self, dbapi_connection: Any) -> None:
        """There are no transactions."""

    def do_commit(self, dbapi_connection: Any) -> None:
        """There are no transactions."""

    def do_ping(self, dbapi_connection: Any) -> bool:
        """Whether a statement is answered."""
        cursor = dbapi_connection.cursor()
        try:
            cursor.execute("SELECT 1").fetchall()
        finally:
            cursor.close()
        return True

    def has_table(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> bool:
        found = _asked(
            connection,
            "SELECT COUNT(*) FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_SCHEMA = :s AND TABLE_NAME = :t",
            s=schema or SCHEMA,
            t=table_name,
        )
        return bool(found[0][0])

    def get_schema_names(self, connection: Connection, **kw: Any) -> list[str]:
        return [
            name for (name,) in _asked(connection, "SELECT SCHEMA_NAME FROM INFORMATION_SCHEMA.SCHEMATA ORDER BY 1")
        ]

    def get_table_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        asked = "SELECT TABLE_NAME FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_SCHEMA = :s ORDER BY 1"
        return [name for (name,) in _asked(connection, asked, s=schema or SCHEMA)]

    def get_columns(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        found = _asked(
            connection,
            "SELECT COLUMN_NAME, DATA_TYPE, IS_NULLABLE FROM INFORMATION_SCHEMA.COLUMNS "
            "WHERE TABLE_SCHEMA = :s AND TABLE_NAME = :t ORDER BY ORDINAL_POSITION",
            s=schema or SCHEMA,
            t=table_name,
        )
        if not found:
            raise NoSuchTableError(table_name)
        return [
            {"name": name, "type": _TYPES.get(kind, types.String)(), "nullable": nullable == "YES", "default": None}
            for name, kind, nullable in found
        ]

    def get_view_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        return []

    def get_pk_constraint(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        return {"constrained_columns": [], "name": None}

    def get_foreign_keys(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        return []

    def get_indexes(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        return []

    def get_unique_constraints(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        return []

    def get_check_constraints(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        return []

    def get_table_comment(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        return {"text": None}


def _asked(connection: Connection, sql: str, **values: str) -> list[Any]:
    return list(connection.execute(text(sql), values))
