"""Adds the numbers that stand for partitions of several topics, where a supervisor reads a pattern of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "stream_places",
        sa.Column("supervisor", NAME, nullable=False),
        sa.Column("stream", NAME, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("topic", NAME, nullable=False),
        sa.Column("partition", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("supervisor", "stream", "number", name="pk_stream_places"),
        sa.UniqueConstraint(
            "supervisor", "stream", "topic", "partition", name="uq_stream_places_supervisor_stream_topic_partition"
        ),
    )


def downgrade() -> None:
    op.drop_table("stream_places")
