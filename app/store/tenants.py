"""A tenant's rows to counts, or to nothing."""

from collections.abc import Sequence

from msgspec import Struct
from sqlalchemy import bindparam, delete, func, select, text

from app.store.database import Database
from app.store.tables import blob_uses, blobs, conversation_items, conversations, responses, threads, turns

__all__ = ("Deleted", "StoreStats", "TenantStats", "delete_tenant", "stats")

BATCH = 500


class TenantStats(Struct, kw_only=True):
    """Counts of one tenant; ``bytes`` are those of bodies, turns, items and blobs, without indexes."""

    tenant: str
    threads: int = 0
    responses: int = 0
    running: int = 0
    conversations: int = 0
    conversation_items: int = 0
    blobs: int = 0
    bytes: int = 0


class StoreStats(Struct, kw_only=True):
    """A whole store; ``disk_bytes`` as its database counts them."""

    revision: str | None
    disk_bytes: int
    statuses: dict[str, int]
    tenants: list[TenantStats]


class Deleted(Struct):
    """What of a tenant was deleted."""

    threads: int = 0
    conversations: int = 0
    blobs: int = 0


async def stats(database: Database) -> StoreStats:
    """Count everything, tenant by tenant, largest first. Reads the whole store once."""
    found: dict[str, TenantStats] = {}

    def of(tenant: str) -> TenantStats:
        return found.setdefault(tenant, TenantStats(tenant=tenant))

    statuses: dict[str, int] = {}
    async with database.read() as connection:
        for tenant, count in (await connection.execute(_THREADS)).all():
            of(tenant).threads = count
        for tenant, status, count, size in (await connection.execute(_RESPONSES)).all():
            one = of(tenant)
            one.responses += count
            one.running += count if status in ("queued", "in_progress") else 0
            one.bytes += size or 0
            statuses[status] = statuses.get(status, 0) + count
        for tenant, count in (await connection.execute(_CONVERSATIONS)).all():
            of(tenant).conversations = count
        for tenant, count, size in (await connection.execute(_ITEMS)).all():
            of(tenant).conversation_items = count
            of(tenant).bytes += size or 0
        for tenant, count, size in (await connection.execute(_BLOBS)).all():
            of(tenant).blobs = count
            of(tenant).bytes += size or 0
        revision = (await connection.execute(text("SELECT version_num FROM alembic_version"))).scalar()
    tenants = sorted(found.values(), key=lambda one: (-one.bytes, one.tenant))
    return StoreStats(
        revision=revision,
        disk_bytes=await database.size_bytes(),
        statuses=dict(sorted(statuses.items())),
        tenants=tenants,
    )


async def delete_tenant(database: Database, tenant: str) -> Deleted:
    """Delete all that a tenant has stored, some hundred rows a transaction. Runs of it find themselves cancelled."""
    done = Deleted()
    for name in ("threads", "conversations"):
        table = threads if name == "threads" else conversations
        chosen = select(table.c.id).where(table.c.tenant_id == bindparam("tenant")).limit(BATCH)
        while True:
            async with database.write() as connection:
                ids: Sequence[str] = (await connection.execute(chosen, {"tenant": tenant})).scalars().all()
                if ids:
                    await connection.execute(delete(table).where(table.c.id.in_(ids)))
            setattr(done, name, getattr(done, name) + len(ids))
            if len(ids) < BATCH:
                break
    async with database.write() as connection:
        await connection.execute(delete(blob_uses).where(blob_uses.c.tenant_id == tenant))
        done.blobs = (await connection.execute(delete(blobs).where(blobs.c.tenant_id == tenant))).rowcount
    return done


_THREADS = select(threads.c.tenant_id, func.count()).group_by(threads.c.tenant_id)
_RESPONSES = (
    select(
        responses.c.tenant_id,
        responses.c.status,
        func.count(),
        func.sum(func.length(responses.c.body) + func.length(turns.c.input) + func.length(turns.c.output)),
    )
    .where(turns.c.response_id == responses.c.id)
    .group_by(responses.c.tenant_id, responses.c.status)
)
_CONVERSATIONS = select(conversations.c.tenant_id, func.count()).group_by(conversations.c.tenant_id)
_ITEMS = (
    select(conversations.c.tenant_id, func.count(), func.sum(func.length(conversation_items.c.body)))
    .where(conversation_items.c.conversation_id == conversations.c.id)
    .group_by(conversations.c.tenant_id)
)
_BLOBS = select(blobs.c.tenant_id, func.count(), func.sum(func.length(blobs.c.data))).group_by(blobs.c.tenant_id)
