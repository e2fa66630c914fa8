"""Exact token ids of turns (all else stays as it is in both directions)"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

COLUMNS = (("shared_ids", sa.Integer()), ("prompt_ids", sa.LargeBinary()), ("completion_ids", sa.LargeBinary()))


def upgrade() -> None:
    for name, kind in COLUMNS:
        op.add_column("turns", sa.Column(name, kind))


def downgrade() -> None:
    for name, _ in reversed(COLUMNS):
        op.drop_column("turns", name)
