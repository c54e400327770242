"""Gives the database a name of its own, by which tasks and servers know that they speak to theirs."""

from __future__ import annotations

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.add_column("leadership", sa.Column("database_id", NAME, nullable=True))
    op.execute(sa.text("UPDATE leadership SET database_id = :drawn").bindparams(drawn=secrets.token_hex(16)))


def downgrade() -> None:
    op.drop_column("leadership", "database_id")
