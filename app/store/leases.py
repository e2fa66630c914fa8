"""Names that one process holds for a while: who sweeps, and which processes are alive.

A process keeps a lease on its own id; a turn whose owner's lease has run out has lost its process. Leases are kept
by wall clocks, so replicas' clocks must agree to within a fraction of :data:`LEASE_MS`.
"""

from sqlalchemy import Connection, bindparam, delete, or_, select
from sqlalchemy.dialects import postgresql, sqlite

from app.protocol.ids import now_ms
from app.store.database import Database
from app.store.tables import leases

__all__ = ("LEASE_MS", "alive_owners", "hold", "hold_process", "process_lease", "release")

LEASE_MS = 30_000
"""How long a process is taken for alive after its last heartbeat."""


def process_lease(owner: str) -> str:
    """The name of the lease that says that a process is alive."""
    return f"process/{owner}"


async def hold(database: Database, name: str, owner: str, *, for_ms: int) -> bool:
    """Take or renew a lease; False while another owner holds it."""
    insert = sqlite.insert if database.is_sqlite else postgresql.insert
    now = now_ms()
    statement = (
        insert(leases)
        .values(name=name, owner=owner, expires_at=now + for_ms)
        .on_conflict_do_update(
            index_elements=[leases.c.name],
            set_={"owner": owner, "expires_at": now + for_ms},
            where=or_(leases.c.owner == owner, leases.c.expires_at <= now),
        )
        .returning(leases.c.name)
    )
    return await database.write(lambda connection: connection.execute(statement).first() is not None)


async def hold_process(database: Database, owner: str, *, for_ms: int = LEASE_MS) -> None:
    """A heartbeat: this process is alive."""
    await hold(database, process_lease(owner), owner, for_ms=for_ms)


async def release(database: Database, name: str, owner: str) -> None:
    """Give a lease back early; nothing where another owner holds it."""
    await database.write(lambda connection: connection.execute(_RELEASE, {"key": name, "by": owner}))


def alive_owners(connection: Connection) -> set[str]:
    """Every process that has a lease now."""
    return set(connection.execute(_ALIVE, {"now": now_ms()}).scalars())


_RELEASE = delete(leases).where(leases.c.name == bindparam("key"), leases.c.owner == bindparam("by"))
_ALIVE = select(leases.c.owner).where(leases.c.name.like("process/%"), leases.c.expires_at > bindparam("now"))
