"""The peers that may call a node's control port: those in the node's own networks.

A cluster's nodes and its harness share a network; a client elsewhere may not call the port, even if
it is published. This is no authentication: every host in that network is trusted.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from pathlib import Path
from urllib.parse import unquote

from highwater_core.networks import Network

Address = IPv4Address | IPv6Address

LOOPBACK: tuple[Network, ...] = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))
_ROUTES = Path("/proc/net/route")
_IPV6_ADDRESSES = Path("/proc/net/if_inet6")
_MAX_KNOWN = 10_000
"""Most peers whose results are cached: addresses are many, and cheap to check again."""


class AllowedPeers:
    """Checks peers by their addresses; `networks` empty: by this machine's own networks.

    These are read again for a peer outside them: interfaces come and go.
    """

    def __init__(
        self,
        networks: tuple[Network, ...] = (),
        own: Callable[[], tuple[Network, ...]] | None = None,
    ) -> None:
        self._networks = networks
        self._own = own or own_networks
        self._allowed: dict[Address, None] = {}

    def allows(self, peer: str) -> bool:
        """Return whether a peer, named as gRPC does ("ipv4:10.0.0.1:4711"), may call."""
        address = address_of(peer)
        if address is None:
            return peer.startswith("unix:")  # a Unix socket: the peer may open its file
        return self._allows(address)

    def allows_host(self, host: str) -> bool:
        """Return whether a peer, by its address ("10.0.0.1"), may connect."""
        address = _parse(host)
        return address is not None and self._allows(address)

    def _allows(self, address: Address) -> bool:
        if address in self._allowed:
            return True
        if not any(address in network for network in self._networks or self._own()):
            return False
        if len(self._allowed) >= _MAX_KNOWN:
            self._allowed.clear()
        self._allowed[address] = None
        return True


def address_of(peer: str) -> Address | None:
    """Return the address in gRPC's name of a peer; None where it has none."""
    kind, _, rest = unquote(peer).partition(":")
    if kind not in ("ipv4", "ipv6"):
        return None
    return _parse(rest.rpartition(":")[0].strip("[]"))


def _parse(host: str) -> Address | None:
    """Return the address, without its zone; None for text that is none."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def own_networks() -> tuple[Network, ...]:
    """Return the networks that this machine's interfaces are on, loopback's included (Linux).

    Where they cannot be read, loopback alone.
    """
    return (*LOOPBACK, *_read(_ROUTES, _ipv4_network), *_read(_IPV6_ADDRESSES, _ipv6_network))


def _read(path: Path, parse: Callable[[list[str]], Network | None]) -> list[Network]:
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError:
        return []
    found = (parse(line.split()) for line in lines)
    return [network for network in found if network is not None]


def _ipv4_network(columns: list[str]) -> Network | None:
    """Return a route's network if it needs no gateway: interface, destination, gateway, ..., mask.

    The numbers are in the machine's byte order.
    """
    try:
        destination, gateway, mask = (int(columns[at], 16) for at in (1, 2, 7))
    except (IndexError, ValueError):
        return None  # the heading
    if gateway or not mask:
        return None
    length = mask.bit_count()
    return IPv4Network((IPv4Address(socket.htonl(destination)), length), strict=False)


def _ipv6_network(columns: list[str]) -> Network | None:
    """Return an interface's network: address, number, prefix length, scope, flags, name."""
    try:
        return IPv6Network((int(columns[0], 16), int(columns[2], 16)), strict=False)
    except (IndexError, ValueError):
        return None
