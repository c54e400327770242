"""The tables of the metadata database, the only description of its schema in Python.

``docs/reference/metadata.md`` explains every column to people; ``migrations/`` creates them, and a
test holds the two together. Times are milliseconds UTC; offsets are next-to-read; text that is
compared or ordered uses binary order on every database.
"""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    text,
)

from ingest.offsets import OffsetMap

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

NAME = Text().with_variant(Text(collation="C"), "postgresql")
NUMBER = BigInteger().with_variant(Integer, "sqlite")  # only INTEGER counts up by itself on SQLite


class OffsetsJson(TypeDecorator[OffsetMap]):
    """An ``OffsetMap`` as a JSON object, partition numbers as text."""

    impl = JSON
    cache_ok = True

    def process_bind_param(self, value: OffsetMap | None, dialect: Any) -> Any:
        return None if value is None else value.to_json()

    def process_result_value(self, value: Any, dialect: Any) -> OffsetMap | None:
        return None if value is None else OffsetMap.from_json(value)


def dump_json(value: Any) -> str:
    """One JSON text; integers of any size, as an operator's spec may hold them."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def load_json(value: str | bytes) -> Any:
    """What ``dump_json`` wrote."""
    return json.loads(value)


def _where(condition: str) -> dict[str, Any]:
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}


def _json(name: str, nullable: bool = False) -> Column[Any]:
    return Column(name, JSON(none_as_null=True), nullable=nullable)


def _offsets(name: str, nullable: bool = False) -> Column[Any]:
    return Column(name, OffsetsJson(none_as_null=True), nullable=nullable)


def _big(name: str, nullable: bool = False, **options: Any) -> Column[Any]:
    return Column(name, BigInteger, nullable=nullable, **options)


def _name(name: str, nullable: bool = False, **options: Any) -> Column[Any]:
    return Column(name, NAME, nullable=nullable, **options)


def _key(name: str, kind: Any = NAME) -> Column[Any]:
    return Column(name, kind, primary_key=True, autoincrement=False)


def _counted(name: str = "id") -> Column[Any]:
    return Column(name, NUMBER, primary_key=True, autoincrement=True)


def _sequence_columns() -> tuple[Column[Any], ...]:
    return _name("supervisor"), _big("group_epoch"), _big("number")


# ---------------------------------------------------------------- who leads, who lives

leadership = Table(
    "leadership",
    metadata,
    _key("id", Integer),
    _big("generation"),
    _name("node", nullable=True),
    _name("address", nullable=True),
    _name("database_id", nullable=True),
    CheckConstraint("id = 1", name="one_row"),
)
leader_heartbeat = Table("leader_heartbeat", metadata, _key("id", Integer), _big("generation"), _big("beats"))
nodes = Table(
    "nodes",
    metadata,
    _key("node"),
    _json("roles"),
    _name("address"),
    _big("renewed_ms"),
    _json("acknowledged"),
    _json("detail"),
)
counters = Table("counters", metadata, _key("kind"), _key("name"), _big("value"))

# ---------------------------------------------------------------- lookups

lookups = Table(
    "lookups",
    metadata,
    _key("tier"),
    _key("name"),
    _json("container"),
    _big("updated_ms"),
)

# ---------------------------------------------------------------- supervisors

supervisors = Table(
    "supervisors",
    metadata,
    _key("supervisor"),
    _name("datasource"),
    _big("version"),
    _name("desired"),
    _big("updated_ms"),
    Index(None, "datasource"),
)
supervisor_specs = Table(
    "supervisor_specs",
    metadata,
    _key("supervisor"),
    _key("version", BigInteger),
    _json("spec", True),
    _big("created_ms"),
)
audit = Table(
    "audit",
    metadata,
    _counted(),
    _big("at_ms"),
    _name("supervisor"),
    _name("action"),
    _json("detail"),
    Index(None, "supervisor", "id"),
)
reset_wishes = Table(
    "reset_wishes",
    metadata,
    _key("id", BigInteger),
    _name("supervisor"),
    _name("topic"),
    _offsets("moves"),
    _name("topic_id", nullable=True),
    Column("discard", Boolean, nullable=False),
    _big("asked_ms"),
    _json("backfill", nullable=True),
)

# ---------------------------------------------------------------- offsets, groups, sequences

datasources = Table("datasources", metadata, _key("datasource"), _big("version"))
streams = Table(
    "streams",
    metadata,
    _key("supervisor"),
    _key("topic"),
    _name("datasource"),
    _name("topic_id", nullable=True),
    Index(None, "datasource"),
)
stream_offsets = Table(
    "stream_offsets",
    metadata,
    _key("supervisor"),
    _key("topic"),
    _key("partition", Integer),
    _big("committed"),
    _big("epoch"),
    _big("start"),
    _big("watermark_ms", nullable=True),
    ForeignKeyConstraint(["supervisor", "topic"], ["streams.supervisor", "streams.topic"]),
)
stream_places = Table(
    "stream_places",
    metadata,
    _key("supervisor"),
    _key("stream"),
    _key("number", Integer),
    _name("topic"),
    Column("partition", Integer, nullable=False),
    UniqueConstraint("supervisor", "stream", "topic", "partition"),
)
task_groups = Table(
    "task_groups",
    metadata,
    _key("supervisor"),
    _key("group_epoch", BigInteger),
    _name("topic"),
    _name("datasource"),
    _json("partitions"),
)
sequences = Table(
    "sequences",
    metadata,
    _key("supervisor"),
    _key("group_epoch", BigInteger),
    _key("number", BigInteger),
    _name("state"),
    _offsets("start_offsets"),
    _offsets("end_offsets", nullable=True),
    _offsets("epochs"),
    _big("spec_version"),
    _big("opened_at_ms"),
    Column("assigned", Boolean, nullable=False),
    Column("released", Boolean, nullable=False),
    _big("parse_exceptions", server_default="0"),
    _big("version", server_default="0"),
    ForeignKeyConstraint(["supervisor", "group_epoch"], ["task_groups.supervisor", "task_groups.group_epoch"]),
    Index("ix_sequences_unpublished", "supervisor", **_where("state IN ('open', 'sealed')")),
)
attempts = Table(
    "attempts",
    metadata,
    _counted(),
    _name("token", unique=True),
    _name("task_id"),
    Column("attempt", Integer, nullable=False),
    _name("supervisor"),
    _name("datasource"),
    _big("group_epoch"),
    _name("state"),
    Column("committer", Boolean, nullable=False),
    _big("created_ms"),
    _name("worker", nullable=True),
    _name("address", nullable=True),
    Column("protocol", Integer, nullable=False),
    _offsets("positions"),
    _big("positions_sequence"),
    _big("heartbeat_ms"),
    _big("ended_ms", nullable=True),
    _name("error", nullable=True),
    ForeignKeyConstraint(["supervisor", "group_epoch"], ["task_groups.supervisor", "task_groups.group_epoch"]),
    Index(None, "supervisor", "group_epoch"),
    Index("ix_attempts_live", "supervisor", **_where("ended_ms IS NULL")),
)

# ---------------------------------------------------------------- segments and their proof

ledger = Table(
    "ledger",
    metadata,
    _key("supervisor"),
    _key("group_epoch", BigInteger),
    _key("number", BigInteger),
    _big("first_number"),
    _name("datasource"),
    _name("topic"),
    _offsets("start_offsets"),
    _offsets("end_offsets"),
    _offsets("epochs"),
    _json("counts"),
    _big("rows_in"),
    _big("rows_stored"),
    _big("parse_exceptions"),
    _json("segment_ids"),
    _name("quarantine_path", nullable=True),
    _big("spec_version"),
    _big("version"),
    _big("published_ms"),
    _name("token"),
    _name("replayed_path", nullable=True),
    Index(None, "supervisor", "version"),
)
pending_segments = Table(
    "pending_segments",
    metadata,
    _key("supervisor"),
    _key("group_epoch", BigInteger),
    _key("number", BigInteger),
    _key("start_ms", BigInteger),
    _key("end_ms", BigInteger),
    _name("segment_id", unique=True),
    _name("version"),
    Column("partition_num", Integer, nullable=False),
    _big("created_ms"),
)
partition_numbers = Table(
    "partition_numbers",
    metadata,
    _key("datasource"),
    _key("start_ms", BigInteger),
    _key("end_ms", BigInteger),
    _key("version"),
    Column("next_number", Integer, nullable=False),
    Index(None, "datasource", "end_ms"),
)
staged_files = Table(
    "staged_files",
    metadata,
    _counted(),
    _name("path", unique=True),
    _name("token"),
    *_sequence_columns(),
    _name("segment_id", nullable=True),
    _big("size_bytes"),
    _name("state"),
    _big("staged_ms"),
    _big("removed_ms", nullable=True),
    Index(None, "supervisor", "group_epoch", "number"),
    Index("ix_staged_files_unfinished", "state", **_where("state IN ('staged', 'superseded', 'deleting')")),
)
segments = Table(
    "segments",
    metadata,
    _key("segment_id"),
    _name("datasource"),
    _big("start_ms"),
    _big("end_ms"),
    _name("version"),
    Column("partition_num", Integer, nullable=False),
    _name("state"),
    _big("rows"),
    _big("size_bytes"),
    *_sequence_columns(),
    _json("payload"),
    _big("published_ms"),
    _big("published_version"),
    Index(None, "datasource", "segment_id"),
    Index(None, "datasource", "start_ms", "end_ms"),
    Index(None, "supervisor", "group_epoch", "number"),
)
segment_visibility = Table(
    "segment_visibility",
    metadata,
    _key("segment_id"),
    _key("added", BigInteger),
    _big("removed", nullable=True),
    _name("datasource"),
    ForeignKeyConstraint(["segment_id"], ["segments.segment_id"]),
    Index(None, "datasource", "added"),
    Index("ix_segment_visibility_removed", "datasource", "removed", **_where("removed IS NOT NULL")),
)
quarantine_files = Table(
    "quarantine_files",
    metadata,
    _counted(),
    _name("path", unique=True),
    _name("datasource"),
    *_sequence_columns(),
    _big("rows"),
    _big("size_bytes"),
    _json("load_spec"),
    _name("state"),
    _big("published_ms"),
    _big("published_version"),
    _name("replayed_by", nullable=True),
    UniqueConstraint("supervisor", "group_epoch", "number"),
    Index(None, "datasource", "id"),
)
replays = Table(
    "replays",
    metadata,
    _key("supervisor"),
    _key("group_epoch", BigInteger),
    _key("number", BigInteger),
    _name("token", unique=True),
    _name("datasource"),
    _name("topic"),
    _name("path"),
    _big("generation"),
    _big("spec_version"),
    _big("opened_at_ms"),
    _name("state"),
    _big("begun_ms"),
    Index("ix_replays_begun", "path", **_where("state = 'begun'")),
)
