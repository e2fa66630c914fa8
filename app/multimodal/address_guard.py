"""A host name to the addresses that media may be fetched from, or a refusal.

A name is resolved once, every address it has must be public, and the connection is pinned to one of them: a name
that answers otherwise a moment later (DNS rebinding) changes nothing. Hosts in odd spellings (decimal, octal, hex,
IPv6-mapped) are judged by the address that they resolve to.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence

from app.errors import BadMedia

__all__ = ("AddressGuard", "Resolve", "is_public")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolve = Callable[[str, int], Awaitable[list[str]]]
"""``(host, port)`` to addresses as text; raises OSError where there are none."""

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_NAT64_LOCAL = ipaddress.IPv6Network("64:ff9b:1::/48")


async def system_resolve(host: str, port: int) -> list[str]:
    """The system's resolver."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def embedded(address: Address) -> Address:
    """The IPv4 address that an IPv6 one only wraps (mapped, 6to4, NAT64, Teredo's client), else the address itself."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped:
            return address.ipv4_mapped
        if address.sixtofour:
            return address.sixtofour
        if address.teredo:
            return address.teredo[1]
        if address in _NAT64:
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def is_public(address: Address) -> bool:
    """Whether packets to it leave for the public internet: global, unicast, and no wrapper of one that is not."""
    if address in _NAT64_LOCAL:
        return False
    inner = embedded(address)
    return inner.is_global and not inner.is_multicast


class AddressGuard:
    """Decides which hosts may be asked, and at which address.

    Args:
        allowed_domains: hosts, or parents of hosts; empty: every one.
        denied_domains: hosts, or parents of hosts, that are never asked.
        allowed_networks: networks that count as public though they are not (an operator's own media server).
        resolve: for tests.
    """

    def __init__(
        self,
        allowed_domains: Sequence[str] = (),
        denied_domains: Sequence[str] = (),
        allowed_networks: Sequence[str] = (),
        resolve: Resolve = system_resolve,
    ) -> None:
        self._allowed = [_normal(name) for name in allowed_domains]
        self._denied = [_normal(name) for name in denied_domains]
        self._networks: list[Network] = [ipaddress.ip_network(text, strict=False) for text in allowed_networks]
        self._resolve = resolve

    async def address(self, host: str, port: int, *, param: str) -> str:
        """The address to connect to for ``host``.

        Raises:
            BadMedia: the host is not allowed, has no address, or any of its addresses is not public. The text is the
                same for every address, so that an answer tells nothing of the network behind this server.
        """
        name = _normal(host)
        if any(_within(name, domain) for domain in self._denied) or (
            self._allowed and not any(_within(name, domain) for domain in self._allowed)
        ):
            raise BadMedia(f"Media may not be fetched from the host {host!r}.", param=param)
        try:
            addresses = [ipaddress.ip_address(text.partition("%")[0]) for text in await self._resolve(name, port)]
        except (OSError, UnicodeError, ValueError):
            raise BadMedia(f"The host {host!r} of this URL could not be resolved.", param=param) from None
        if not addresses or not all(self._permitted(address) for address in addresses):
            raise BadMedia(f"Media may not be fetched from the host {host!r}.", param=param)
        return str(addresses[0])

    def _permitted(self, address: Address) -> bool:
        inner = embedded(address)
        return is_public(address) or any(
            inner.version == network.version and inner in network for network in self._networks
        )


def _normal(host: str) -> str:
    return host.strip().rstrip(".").lower()


def _within(host: str, domain: str) -> bool:
    return host == domain or host.endswith("." + domain)
