"""Turns and conversations"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

Id = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "threads",
        sa.Column("id", Id, nullable=False),
        sa.Column("tenant_id", Id, nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_threads")),
    )
    op.create_index("ix_threads_expires_at", "threads", ["expires_at"])
    op.create_index("ix_threads_tenant_id", "threads", ["tenant_id"])

    op.create_table(
        "responses",
        sa.Column("id", Id, nullable=False),
        sa.Column("tenant_id", Id, nullable=False),
        sa.Column("thread_id", Id, nullable=False),
        sa.Column("previous_id", Id),
        sa.Column("conversation_id", Id),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("background", sa.Boolean(), nullable=False),
        sa.Column("owner", Id),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger()),
        sa.Column("events_until", sa.BigInteger()),
        sa.Column("idempotency_key", sa.Text()),
        sa.Column("request_hash", sa.LargeBinary()),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_responses")),
        sa.ForeignKeyConstraint(
            ["thread_id"], ["threads.id"], name=op.f("fk_responses_thread_id"), ondelete="CASCADE"
        ),
        sa.CheckConstraint(
            "status IN ('queued', 'in_progress', 'completed', 'incomplete', 'failed', 'cancelled')",
            name=op.f("ck_responses_status"),
        ),
    )
    op.create_index("ix_responses_thread_id", "responses", ["thread_id"])
    for name, columns, unique, where in (
        ("uq_responses_idempotency", ["tenant_id", "idempotency_key"], True, "idempotency_key IS NOT NULL"),
        ("ix_responses_running", ["owner"], False, "owner IS NOT NULL"),
        ("ix_responses_events_until", ["events_until"], False, "events_until IS NOT NULL"),
    ):
        op.create_index(
            name, "responses", columns, unique=unique, sqlite_where=sa.text(where), postgresql_where=sa.text(where)
        )

    op.create_table(
        "turns",
        sa.Column("response_id", Id, nullable=False),
        sa.Column("input", sa.LargeBinary(), nullable=False),
        sa.Column("output", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("response_id", name=op.f("pk_turns")),
        sa.ForeignKeyConstraint(
            ["response_id"], ["responses.id"], name=op.f("fk_turns_response_id"), ondelete="CASCADE"
        ),
    )
    op.create_table(
        "events",
        sa.Column("response_id", Id, nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("event", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("response_id", "sequence", name=op.f("pk_events")),
        sa.ForeignKeyConstraint(
            ["response_id"], ["responses.id"], name=op.f("fk_events_response_id"), ondelete="CASCADE"
        ),
    )

    op.create_table(
        "conversations",
        sa.Column("id", Id, nullable=False),
        sa.Column("tenant_id", Id, nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("metadata", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_conversations")),
    )
    op.create_index("ix_conversations_tenant_id", "conversations", ["tenant_id"])
    op.create_table(
        "conversation_items",
        sa.Column("conversation_id", Id, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("id", Id, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("conversation_id", "position", name=op.f("pk_conversation_items")),
        sa.UniqueConstraint("conversation_id", "id", name=op.f("uq_conversation_items_conversation_id_id")),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.id"],
            name=op.f("fk_conversation_items_conversation_id"),
            ondelete="CASCADE",
        ),
    )

    op.create_table(
        "blobs",
        sa.Column("tenant_id", Id, nullable=False),
        sa.Column("sha256", sa.LargeBinary(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "sha256", name=op.f("pk_blobs")),
    )
    op.create_table(
        "blob_uses",
        sa.Column("tenant_id", Id, nullable=False),
        sa.Column("sha256", sa.LargeBinary(), nullable=False),
        sa.Column("response_id", Id),
        sa.Column("conversation_id", Id),
        sa.UniqueConstraint(
            "tenant_id", "sha256", "response_id", name=op.f("uq_blob_uses_tenant_id_sha256_response_id")
        ),
        sa.UniqueConstraint(
            "tenant_id", "sha256", "conversation_id", name=op.f("uq_blob_uses_tenant_id_sha256_conversation_id")
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "sha256"], ["blobs.tenant_id", "blobs.sha256"], name=op.f("fk_blob_uses_tenant_id_sha256")
        ),
        sa.ForeignKeyConstraint(
            ["response_id"], ["responses.id"], name=op.f("fk_blob_uses_response_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["conversation_id"], ["conversations.id"], name=op.f("fk_blob_uses_conversation_id"), ondelete="CASCADE"
        ),
    )
    op.create_index("ix_blob_uses_response_id", "blob_uses", ["response_id"])
    op.create_index("ix_blob_uses_conversation_id", "blob_uses", ["conversation_id"])

    op.create_table(
        "leases",
        sa.Column("name", Id, nullable=False),
        sa.Column("owner", Id, nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_leases")),
    )


def downgrade() -> None:
    for table in (
        "leases",
        "blob_uses",
        "blobs",
        "conversation_items",
        "conversations",
        "events",
        "turns",
        "responses",
        "threads",
    ):
        op.drop_table(table)
