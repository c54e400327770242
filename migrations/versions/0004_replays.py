"""Adds replays of quarantine files: who is at it, what a replay ingested, and which file it was."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "replays",
        sa.Column("supervisor", NAME, nullable=False),
        sa.Column("group_epoch", sa.BigInteger, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("token", NAME, nullable=False),
        sa.Column("datasource", NAME, nullable=False),
        sa.Column("topic", NAME, nullable=False),
        sa.Column("path", NAME, nullable=False),
        sa.Column("generation", sa.BigInteger, nullable=False),
        sa.Column("spec_version", sa.BigInteger, nullable=False),
        sa.Column("opened_at_ms", sa.BigInteger, nullable=False),
        sa.Column("state", NAME, nullable=False),
        sa.Column("begun_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("supervisor", "group_epoch", "number", name="pk_replays"),
        sa.UniqueConstraint("token", name="uq_replays_token"),
    )
    op.create_index(
        "ix_replays_begun",
        "replays",
        ["path"],
        sqlite_where=sa.text("state = 'begun'"),
        postgresql_where=sa.text("state = 'begun'"),
    )
    op.add_column("ledger", sa.Column("replayed_path", NAME, nullable=True))
    op.add_column("quarantine_files", sa.Column("replayed_by", NAME, nullable=True))


def downgrade() -> None:
    op.drop_column("quarantine_files", "replayed_by")
    op.drop_column("ledger", "replayed_path")
    op.drop_index("ix_replays_begun", "replays")
    op.drop_table("replays")
