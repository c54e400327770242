"""Creates every table of the first release, and the two rows that leadership lives in."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _where(condition: str) -> dict[str, Any]:
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}


def upgrade() -> None:
    _create_leadership()
    _create_supervisors()
    _create_offsets()
    _create_sequences()
    _create_attempts()
    _create_ledger()
    _create_files()
    _create_segments()
    op.execute("INSERT INTO leadership (id, generation) VALUES (1, 0)")
    op.execute("INSERT INTO leader_heartbeat (id, generation, beats) VALUES (1, 0, 0)")


def downgrade() -> None:
    raise NotImplementedError("the first schema has no earlier one; restore a backup or start with an empty database")


def _create_leadership() -> None:
    op.create_table(
        "leadership",
        sa.Column("id", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("generation", sa.BigInteger, nullable=False),
        sa.Column("node", NAME, nullable=True),
        sa.Column("address", NAME, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_leadership"),
        sa.CheckConstraint("id = 1", name="ck_leadership_one_row"),
    )
    op.create_table(
        "leader_heartbeat",
        sa.Column("id", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("generation", sa.BigInteger, nullable=False),
        sa.Column("beats", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_leader_heartbeat"),
    )
    op.create_table(
        "nodes",
        sa.Column("node", NAME, nullable=False),
        sa.Column("roles", sa.JSON, nullable=False),
        sa.Column("address", NAME, nullable=False),
        sa.Column("renewed_ms", sa.BigInteger, nullable=False),
        sa.Column("acknowledged", sa.JSON, nullable=False),
        sa.Column("detail", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("node", name="pk_nodes"),
    )
    op.create_table(
        "counters",
        sa.Column("kind", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("value", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("kind", "name", name="pk_counters"),
    )


def _create_supervisors() -> None:
    op.create_table(
        "supervisors",
        sa.Column("supervisor", NAME, nullable=False),
        sa.Column("datasource", NAME, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("desired", NAME, nullable=False),
        sa.Column("updated_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("supervisor", name="pk_supervisors"),
    )
    op.create_index("ix_supervisors_datasource", "supervisors", ["datasource"])
    op.create_table(
        "supervisor_specs",
        sa.Column("supervisor", NAME, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("spec", sa.JSON, nullable=True),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("supervisor", "version", name="pk_supervisor_specs"),
    )
    op.create_table(
        "audit",
        sa.Column("id", NUMBER, nullable=False, autoincrement=True),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("supervisor", NAME, nullable=False),
        sa.Column("action", NAME, nullable=False),
        sa.Column("detail", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
    )
    op.create_index("ix_audit_supervisor_id", "audit", ["supervisor", "id"])
    op.create_table(
        "reset_wishes",
        sa.Column("id", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("supervisor", NAME, nullable=False),
        sa.Column("topic", NAME, nullable=False),
        sa.Column("moves", sa.JSON, nullable=False),
        sa.Column("topic_id", NAME, nullable=True),
        sa.Column("discard", sa.Boolean, nullable=False),
        sa.Column("asked_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_reset_wishes"),
    )


def _create_offsets() -> None:
    op.create_table(
        "datasources",
        sa.Column("datasource", NAME, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("datasource", name="pk_datasources"),
    )
    op.create_table(
        "streams",
        sa.Column("supervisor", NAME, nullable=False),
        sa.Column("topic", NAME, nullable=False),
        sa.Column("datasource", NAME, nullable=False),
        sa.Column("topic_id", NAME, nullable=True),
        sa.PrimaryKeyConstraint("supervisor", "topic", name="pk_streams"),
    )
    op.create_index("ix_streams_datasource", "streams", ["datasource"])
    op.create_table(
        "stream_offsets",
        sa.Column("supervisor", NAME, nullable=False),
        sa.Column("topic", NAME, nullable=False),
        sa.Column("partition", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("committed", sa.BigInteger, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("start", sa.BigInteger, nullable=False),
        sa.Column("watermark_ms", sa.BigInteger, nullable=True),
        sa.PrimaryKeyConstraint("supervisor", "topic", "partition", name="pk_stream_offsets"),
        sa.ForeignKeyConstraint(
            ["supervisor", "topic"], ["streams.supervisor", "streams.topic"], name="fk_stream_offsets_streams"
        ),
    )


def _create_sequences() -> None:
    op.create_table(
        "task_groups",
        sa.Column("supervisor", NAME, nullable=False),
        sa.Column("group_epoch", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("topic", NAME, nullable=False),
        sa.Column("datasource", NAME, nullable=False),
        sa.Column("partitions", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("supervisor", "group_epoch", name="pk_task_groups"),
    )
    op.create_table(
        "sequences",
        sa.Column("supervisor", NAME, nullable=False),
        sa.Column("group_epoch", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("number", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("state", NAME, nullable=False),
        sa.Column("start_offsets", sa.JSON, nullable=False),
        sa.Column("end_offsets", sa.JSON, nullable=True),
        sa.Column("epochs", sa.JSON, nullable=False),
        sa.Column("spec_version", sa.BigInteger, nullable=False),
        sa.Column("opened_at_ms", sa.BigInteger, nullable=False),
        sa.Column("assigned", sa.Boolean, nullable=False),
        sa.Column("released", sa.Boolean, nullable=False),
        sa.Column("parse_exceptions", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("version", sa.BigInteger, nullable=False, server_default="0"),
        sa.PrimaryKeyConstraint("supervisor", "group_epoch", "number", name="pk_sequences"),
        sa.ForeignKeyConstraint(
            ["supervisor", "group_epoch"],
            ["task_groups.supervisor", "task_groups.group_epoch"],
            name="fk_sequences_task_groups",
        ),
    )
    op.create_index("ix_sequences_unpublished", "sequences", ["supervisor"], **_where("state IN ('open', 'sealed')"))


def _create_attempts() -> None:
    op.create_table(
        "attempts",
        sa.Column("id", NUMBER, nullable=False, autoincrement=True),
        sa.Column("token", NAME, nullable=False),
        sa.Column("task_id", NAME, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("supervisor", NAME, nullable=False),
        sa.Column("datasource", NAME, nullable=False),
        sa.Column("group_epoch", sa.BigInteger, nullable=False),
        sa.Column("state", NAME, nullable=False),
        sa.Column("committer", sa.Boolean, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("worker", NAME, nullable=True),
        sa.Column("address", NAME, nullable=True),
        sa.Column("protocol", sa.Integer, nullable=False),
        sa.Column("positions", sa.JSON, nullable=False),
        sa.Column("positions_sequence", sa.BigInteger, nullable=False),
        sa.Column("heartbeat_ms", sa.BigInteger, nullable=False),
        sa.Column("ended_ms", sa.BigInteger, nullable=True),
        sa.Column("error", NAME, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_attempts"),
        sa.ForeignKeyConstraint(
            ["supervisor", "group_epoch"],
            ["task_groups.supervisor", "task_groups.group_epoch"],
            name="fk_attempts_task_groups",
        ),
        sa.UniqueConstraint("token", name="uq_attempts_token"),
    )
    op.create_index("ix_attempts_live", "attempts", ["supervisor"], **_where("ended_ms IS NULL"))
    op.create_index("ix_attempts_supervisor_group_epoch", "attempts", ["supervisor", "group_epoch"])


def _create_ledger() -> None:
    op.create_table(
        "ledger",
        sa.Column("supervisor", NAME, nullable=False),
        sa.Column("group_epoch", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("number", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("first_number", sa.BigInteger, nullable=False),
        sa.Column("datasource", NAME, nullable=False),
        sa.Column("topic", NAME, nullable=False),
        sa.Column("start_offsets", sa.JSON, nullable=False),
        sa.Column("end_offsets", sa.JSON, nullable=False),
        sa.Column("epochs", sa.JSON, nullable=False),
        sa.Column("counts", sa.JSON, nullable=False),
        sa.Column("rows_in", sa.BigInteger, nullable=False),
        sa.Column("rows_stored", sa.BigInteger, nullable=False),
        sa.Column("parse_exceptions", sa.BigInteger, nullable=False),
        sa.Column("segment_ids", sa.JSON, nullable=False),
        sa.Column("quarantine_path", NAME, nullable=True),
        sa.Column("spec_version", sa.BigInteger, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("published_ms", sa.BigInteger, nullable=False),
        sa.Column("token", NAME, nullable=False),
        sa.PrimaryKeyConstraint("supervisor", "group_epoch", "number", name="pk_ledger"),
    )
    op.create_index("ix_ledger_supervisor_version", "ledger", ["supervisor", "version"])


def _create_files() -> None:
    op.create_table(
        "pending_segments",
        sa.Column("supervisor", NAME, nullable=False),
        sa.Column("group_epoch", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("number", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("start_ms", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("end_ms", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("segment_id", NAME, nullable=False),
        sa.Column("version", NAME, nullable=False),
        sa.Column("partition_num", sa.Integer, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint(
            "supervisor", "group_epoch", "number", "start_ms", "end_ms", name="pk_pending_segments"
        ),
        sa.UniqueConstraint("segment_id", name="uq_pending_segments_segment_id"),
    )
    op.create_table(
        "partition_numbers",
        sa.Column("datasource", NAME, nullable=False),
        sa.Column("start_ms", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("end_ms", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("version", NAME, nullable=False),
        sa.Column("next_number", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("datasource", "start_ms", "end_ms", "version", name="pk_partition_numbers"),
    )
    op.create_index("ix_partition_numbers_datasource_end_ms", "partition_numbers", ["datasource", "end_ms"])
    op.create_table(
        "staged_files",
        sa.Column("id", NUMBER, nullable=False, autoincrement=True),
        sa.Column("path", NAME, nullable=False),
        sa.Column("token", NAME, nullable=False),
        sa.Column("supervisor", NAME, nullable=False),
        sa.Column("group_epoch", sa.BigInteger, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("segment_id", NAME, nullable=True),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("state", NAME, nullable=False),
        sa.Column("staged_ms", sa.BigInteger, nullable=False),
        sa.Column("removed_ms", sa.BigInteger, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_staged_files"),
        sa.UniqueConstraint("path", name="uq_staged_files_path"),
    )
    op.create_index(
        "ix_staged_files_supervisor_group_epoch_number", "staged_files", ["supervisor", "group_epoch", "number"]
    )
    op.create_index(
        "ix_staged_files_unfinished",
        "staged_files",
        ["state"],
        **_where("state IN ('staged', 'superseded', 'deleting')"),
    )


def _create_segments() -> None:
    op.create_table(
        "segments",
        sa.Column("segment_id", NAME, nullable=False),
        sa.Column("datasource", NAME, nullable=False),
        sa.Column("start_ms", sa.BigInteger, nullable=False),
        sa.Column("end_ms", sa.BigInteger, nullable=False),
        sa.Column("version", NAME, nullable=False),
        sa.Column("partition_num", sa.Integer, nullable=False),
        sa.Column("state", NAME, nullable=False),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("supervisor", NAME, nullable=False),
        sa.Column("group_epoch", sa.BigInteger, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("payload", sa.JSON, nullable=False),
        sa.Column("published_ms", sa.BigInteger, nullable=False),
        sa.Column("published_version", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("segment_id", name="pk_segments"),
    )
    op.create_index("ix_segments_datasource_segment_id", "segments", ["datasource", "segment_id"])
    op.create_index("ix_segments_datasource_start_ms_end_ms", "segments", ["datasource", "start_ms", "end_ms"])
    op.create_index("ix_segments_supervisor_group_epoch_number", "segments", ["supervisor", "group_epoch", "number"])
    op.create_table(
        "segment_visibility",
        sa.Column("segment_id", NAME, nullable=False),
        sa.Column("added", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("removed", sa.BigInteger, nullable=True),
        sa.Column("datasource", NAME, nullable=False),
        sa.PrimaryKeyConstraint("segment_id", "added", name="pk_segment_visibility"),
        sa.ForeignKeyConstraint(["segment_id"], ["segments.segment_id"], name="fk_segment_visibility_segments"),
    )
    op.create_index("ix_segment_visibility_datasource_added", "segment_visibility", ["datasource", "added"])
    op.create_index(
        "ix_segment_visibility_removed",
        "segment_visibility",
        ["datasource", "removed"],
        **_where("removed IS NOT NULL"),
    )
    op.create_table(
        "quarantine_files",
        sa.Column("id", NUMBER, nullable=False, autoincrement=True),
        sa.Column("path", NAME, nullable=False),
        sa.Column("datasource", NAME, nullable=False),
        sa.Column("supervisor", NAME, nullable=False),
        sa.Column("group_epoch", sa.BigInteger, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("load_spec", sa.JSON, nullable=False),
        sa.Column("state", NAME, nullable=False),
        sa.Column("published_ms", sa.BigInteger, nullable=False),
        sa.Column("published_version", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_quarantine_files"),
        sa.UniqueConstraint("path", name="uq_quarantine_files_path"),
        sa.UniqueConstraint(
            "supervisor", "group_epoch", "number", name="uq_quarantine_files_supervisor_group_epoch_number"
        ),
    )
    op.create_index("ix_quarantine_files_datasource_id", "quarantine_files", ["datasource", "id"])
