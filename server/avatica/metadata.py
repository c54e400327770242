"""Answers JDBC's metadata calls: catalogs, schemas, tables, columns and types, as SQL over INFORMATION_SCHEMA."""

from __future__ import annotations

from typing import Any

from query.errors import InvalidQuery
from query.sql.types import BIGINT, BOOLEAN, VARCHAR, SqlType

_NOTHING = "CAST(NULL AS VARCHAR)"
TABLE_TYPES = ("SYSTEM_TABLE", "TABLE", "VIEW")
_TYPES = (
    # Name, JDBC's number, precision, what stands around a literal.
    ("BIGINT", -5, 19, None),
    ("BOOLEAN", 16, 1, None),
    ("DATE", 91, 0, "DATE '"),
    ("DOUBLE", 8, 15, None),
    ("FLOAT", 6, 7, None),
    ("OTHER", 1111, 0, None),
    ("TIMESTAMP", 93, 3, "TIMESTAMP '"),
    ("VARCHAR", 12, 0, "'"),
)
TYPE_INFO: tuple[tuple[str, SqlType], ...] = (
    ("TYPE_NAME", VARCHAR),
    ("DATA_TYPE", BIGINT),
    ("PRECISION", BIGINT),
    ("LITERAL_PREFIX", VARCHAR),
    ("LITERAL_SUFFIX", VARCHAR),
    ("CREATE_PARAMS", VARCHAR),
    ("NULLABLE", BIGINT),
    ("CASE_SENSITIVE", BOOLEAN),
    ("SEARCHABLE", BIGINT),
    ("UNSIGNED_ATTRIBUTE", BOOLEAN),
    ("FIXED_PREC_SCALE", BOOLEAN),
    ("AUTO_INCREMENT", BOOLEAN),
    ("LOCAL_TYPE_NAME", VARCHAR),
    ("MINIMUM_SCALE", BIGINT),
    ("MAXIMUM_SCALE", BIGINT),
    ("SQL_DATA_TYPE", BIGINT),
    ("SQL_DATETIME_SUB", BIGINT),
    ("NUM_PREC_RADIX", BIGINT),
)


def type_rows() -> list[list[Any]]:
    """What JDBC calls type info, in the order of ``TYPE_INFO``; ordered by JDBC's number as JDBC wants it."""
    rows = []
    for name, number, precision, prefix in sorted(_TYPES, key=lambda one: one[1]):
        suffix = None if prefix is None else "'"
        is_text, radix = name == "VARCHAR", 10 if number in (-5, 6, 8) else None
        rows.append(
            [name, number, precision, prefix, suffix, None, 1, is_text, 3, False, False, False, name, 0, 0]
            + [None, None, radix]
        )
    return rows


def schemas_sql(request: dict[str, Any]) -> str:
    """JDBC's getSchemas."""
    where = _where([_equal("CATALOG_NAME", request.get("catalog")), _like("SCHEMA_NAME", request.get("schemaPattern"))])
    return (
        "SELECT SCHEMA_NAME AS TABLE_SCHEM, CATALOG_NAME AS TABLE_CATALOG FROM INFORMATION_SCHEMA.SCHEMATA"
        f"{where} ORDER BY 2, 1"
    )


def tables_sql(request: dict[str, Any]) -> str:
    """JDBC's getTables."""
    types = request.get("typeList")
    one_of = None
    if types is not None and not isinstance(types, list):
        raise InvalidQuery(f"getTables: typeList must be a list of texts (found {types!r})")
    if types is not None:
        one_of = f"TABLE_TYPE IN ({', '.join(_text(name) for name in types)})" if types else "1 = 0"
    where = _where([*_place(request), one_of])
    absent = ", ".join(
        f"{_NOTHING} AS {name}"
        for name in ("REMARKS", "TYPE_CAT", "TYPE_SCHEM", "TYPE_NAME", "SELF_REFERENCING_COL_NAME", "REF_GENERATION")
    )
    return (
        "SELECT TABLE_CATALOG AS TABLE_CAT, TABLE_SCHEMA AS TABLE_SCHEM, TABLE_NAME, TABLE_TYPE, "
        f"{absent} FROM INFORMATION_SCHEMA.TABLES{where} ORDER BY 4, 1, 2, 3"
    )


def columns_sql(request: dict[str, Any]) -> str:
    """JDBC's getColumns."""
    where = _where([*_place(request), _like("COLUMN_NAME", request.get("columnNamePattern"))])
    return (
        "SELECT TABLE_CATALOG AS TABLE_CAT, TABLE_SCHEMA AS TABLE_SCHEM, TABLE_NAME, COLUMN_NAME, "
        "JDBC_TYPE AS DATA_TYPE, DATA_TYPE AS TYPE_NAME, NUMERIC_PRECISION AS COLUMN_SIZE, "
        "CAST(NULL AS BIGINT) AS BUFFER_LENGTH, NUMERIC_SCALE AS DECIMAL_DIGITS, "
        "NUMERIC_PRECISION_RADIX AS NUM_PREC_RADIX, CASE IS_NULLABLE WHEN 'YES' THEN 1 ELSE 0 END AS NULLABLE, "
        f"{_NOTHING} AS REMARKS, COLUMN_DEFAULT AS COLUMN_DEF, CAST(NULL AS BIGINT) AS SQL_DATA_TYPE, "
        "CAST(NULL AS BIGINT) AS SQL_DATETIME_SUB, CHARACTER_OCTET_LENGTH AS CHAR_OCTET_LENGTH, ORDINAL_POSITION, "
        f"IS_NULLABLE, {_NOTHING} AS SCOPE_CATALOG, {_NOTHING} AS SCOPE_SCHEMA, {_NOTHING} AS SCOPE_TABLE, "
        "CAST(NULL AS BIGINT) AS SOURCE_DATA_TYPE, 'NO' AS IS_AUTOINCREMENT, 'NO' AS IS_GENERATEDCOLUMN "
        f"FROM INFORMATION_SCHEMA.COLUMNS{where} ORDER BY 1, 2, 3, 17"
    )


def _place(request: dict[str, Any]) -> list[str | None]:
    return [
        _equal("TABLE_CATALOG", request.get("catalog")),
        _like("TABLE_SCHEMA", request.get("schemaPattern")),
        _like("TABLE_NAME", request.get("tableNamePattern")),
    ]


def _where(conditions: list[str | None]) -> str:
    asked = [condition for condition in conditions if condition is not None]
    return f" WHERE {' AND '.join(asked)}" if asked else ""


def _equal(column: str, value: object) -> str | None:
    return None if value is None else f"{column} = {_text(value)}"


def _like(column: str, pattern: object) -> str | None:
    """JDBC's patterns are SQL's, with a backslash before what stands for itself; none is no condition."""
    return None if pattern in (None, "%") else f"{column} LIKE {_text(pattern)} ESCAPE '\\'"


def _text(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"
