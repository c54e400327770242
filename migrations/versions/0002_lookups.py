"""Adds the table of lookups: what was posted, by tier and name."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "lookups",
        sa.Column("tier", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("container", sa.JSON, nullable=False),
        sa.Column("updated_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("tier", "name", name="pk_lookups"),
    )


def downgrade() -> None:
    op.drop_table("lookups")
