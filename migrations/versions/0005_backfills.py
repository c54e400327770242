"""Adds to a wished reset the supervisor that shall read what it skips."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("reset_wishes", sa.Column("backfill", sa.JSON, nullable=True))


def downgrade() -> None:
    op.drop_column("reset_wishes", "backfill")
