"""A tenant's rows to counts, or to nothing."""

from msgspec import Struct
from sqlalchemy import Connection, Table, delete, func, select, text

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
    revision, statuses, tenants = await database.read(_count)
    return StoreStats(
        revision=revision,
        disk_bytes=await database.size_bytes(),
        statuses=dict(sorted(statuses.items())),
        tenants=sorted(tenants, key=lambda one: (-one.bytes, one.tenant)),
    )


def _count(connection: Connection) -> tuple[str | None, dict[str, int], list[TenantStats]]:
    """The revision, responses by status, and each tenant's counts."""
    found: dict[str, TenantStats] = {}

    def of(tenant: str) -> TenantStats:
        return found.setdefault(tenant, TenantStats(tenant=tenant))

    statuses: dict[str, int] = {}
    for tenant, count in connection.execute(_THREADS).all():
        of(tenant).threads = count
    for tenant, status, count, size in connection.execute(_RESPONSES).all():
        one = of(tenant)
        one.responses += count
        one.running += count if status in ("queued", "in_progress") else 0
        one.bytes += size or 0
        statuses[status] = statuses.get(status, 0) + count
    for tenant, count in connection.execute(_CONVERSATIONS).all():
        of(tenant).conversations = count
    for tenant, count, size in connection.execute(_ITEMS).all():
        of(tenant).conversation_items = count
        of(tenant).bytes += size or 0
    for tenant, count, size in connection.execute(_BLOBS).all():
        of(tenant).blobs = count
        of(tenant).bytes += size or 0
    revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return revision, statuses, list(found.values())


async def delete_tenant(database: Database, tenant: str) -> Deleted:
    """Delete all that a tenant has stored, some hundred rows a transaction. Runs of it find themselves cancelled."""
    done = Deleted()
    for table in (threads, conversations):
        removed = BATCH
        while removed == BATCH:
            removed = await database.write(_delete_some, table, tenant)
            setattr(done, table.name, getattr(done, table.name) + removed)
    done.blobs = await database.write(_delete_blobs, tenant)
    return done


def _delete_some(connection: Connection, table: Table, tenant: str) -> int:
    ids = connection.execute(select(table.c.id).where(table.c.tenant_id == tenant).limit(BATCH)).scalars().all()
    if ids:
        connection.execute(delete(table).where(table.c.id.in_(ids)))
    return len(ids)


def _delete_blobs(connection: Connection, tenant: str) -> int:
    connection.execute(delete(blob_uses).where(blob_uses.c.tenant_id == tenant))
    return connection.execute(delete(blobs).where(blobs.c.tenant_id == tenant)).rowcount


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
