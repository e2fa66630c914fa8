"""The store's tables as SQLAlchemy metadata: what ``migrations/`` builds, and what statements are written against.

A *thread* is the unit of retention and tenancy; a *response* is narrow (links, state, and the reply without its
output); a *turn* is wide (what was sent and what was answered, once each). Times are Unix milliseconds.
Source: the project's reference on the Responses API, section 9.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)

__all__ = (
    "HEAD",
    "blob_uses",
    "blobs",
    "conversation_items",
    "conversations",
    "events",
    "leases",
    "metadata",
    "responses",
    "threads",
    "turns",
)

HEAD = "0002"
"""The Alembic revision that this metadata equals; a test compares it with ``migrations/``."""

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

Id = Text().with_variant(Text(collation="C"), "postgresql")
"""Ids compare by bytes: quicker, and the same order in every locale."""

threads = Table(
    "threads",
    metadata,
    Column("id", Id, nullable=False),
    Column("tenant_id", Id, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    PrimaryKeyConstraint("id"),
    Index("ix_threads_expires_at", "expires_at"),
    Index("ix_threads_tenant_id", "tenant_id"),
)

responses = Table(
    "responses",
    metadata,
    Column("id", Id, nullable=False),
    Column("tenant_id", Id, nullable=False),
    Column("thread_id", Id, ForeignKey("threads.id", ondelete="CASCADE"), nullable=False),
    Column("previous_id", Id),
    Column("conversation_id", Id),
    Column("depth", Integer, nullable=False),
    Column("model", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("background", Boolean, nullable=False),
    Column("owner", Id),
    Column("created_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger),
    Column("events_until", BigInteger),
    Column("idempotency_key", Text),
    Column("request_hash", LargeBinary),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("id"),
    CheckConstraint(
        "status IN ('queued', 'in_progress', 'completed', 'incomplete', 'failed', 'cancelled')", name="status"
    ),
    Index("ix_responses_thread_id", "thread_id"),
    Index(
        "uq_responses_idempotency",
        "tenant_id",
        "idempotency_key",
        unique=True,
        sqlite_where=text("idempotency_key IS NOT NULL"),
        postgresql_where=text("idempotency_key IS NOT NULL"),
    ),
    Index(
        "ix_responses_running",
        "owner",
        sqlite_where=text("owner IS NOT NULL"),
        postgresql_where=text("owner IS NOT NULL"),
    ),
    Index(
        "ix_responses_events_until",
        "events_until",
        sqlite_where=text("events_until IS NOT NULL"),
        postgresql_where=text("events_until IS NOT NULL"),
    ),
)
"""``owner`` is the process that runs the turn, and null once it has ended; ``body`` is the reply without ``output``."""

turns = Table(
    "turns",
    metadata,
    Column("response_id", Id, ForeignKey("responses.id", ondelete="CASCADE"), nullable=False),
    Column("input", LargeBinary, nullable=False),
    Column("output", LargeBinary, nullable=False),
    Column("shared_ids", Integer),
    Column("prompt_ids", LargeBinary),
    Column("completion_ids", LargeBinary),
    PrimaryKeyConstraint("response_id"),
)
"""JSON arrays as sent and as answered; the exact token ids as :mod:`app.store.exact` packs them."""

events = Table(
    "events",
    metadata,
    Column("response_id", Id, ForeignKey("responses.id", ondelete="CASCADE"), nullable=False),
    Column("sequence", Integer, nullable=False),
    Column("event", LargeBinary, nullable=False),
    PrimaryKeyConstraint("response_id", "sequence"),
)
"""What a background run has streamed so far; swept some minutes after its end."""

conversations = Table(
    "conversations",
    metadata,
    Column("id", Id, nullable=False),
    Column("tenant_id", Id, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("metadata", LargeBinary, nullable=False),
    PrimaryKeyConstraint("id"),
    Index("ix_conversations_tenant_id", "tenant_id"),
)
"""Kept until deleted, as OpenAI keeps them."""

conversation_items = Table(
    "conversation_items",
    metadata,
    Column("conversation_id", Id, ForeignKey("conversations.id", ondelete="CASCADE"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("id", Id, nullable=False),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("conversation_id", "position"),
    UniqueConstraint("conversation_id", "id"),
)

blobs = Table(
    "blobs",
    metadata,
    Column("tenant_id", Id, nullable=False),
    Column("sha256", LargeBinary, nullable=False),
    Column("data", LargeBinary, nullable=False),
    PrimaryKeyConstraint("tenant_id", "sha256"),
)
"""Large strings of items (data URLs), once a tenant; ``data`` is the JSON string between its quotes."""

blob_uses = Table(
    "blob_uses",
    metadata,
    Column("tenant_id", Id, nullable=False),
    Column("sha256", LargeBinary, nullable=False),
    Column("response_id", Id, ForeignKey("responses.id", ondelete="CASCADE")),
    Column("conversation_id", Id, ForeignKey("conversations.id", ondelete="CASCADE")),
    ForeignKeyConstraint(["tenant_id", "sha256"], ["blobs.tenant_id", "blobs.sha256"]),
    UniqueConstraint("tenant_id", "sha256", "response_id"),
    UniqueConstraint("tenant_id", "sha256", "conversation_id"),
    Index("ix_blob_uses_response_id", "response_id"),
    Index("ix_blob_uses_conversation_id", "conversation_id"),
)
"""Which response or conversation still needs a blob; exactly one of the two is set."""

leases = Table(
    "leases",
    metadata,
    Column("name", Id, nullable=False),
    Column("owner", Id, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("name"),
)
"""Who may do a thing that one process does at a time, and which processes are alive."""
