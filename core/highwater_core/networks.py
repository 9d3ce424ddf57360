"""Networks and announced addresses, as settings name them. Pure."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_network

from highwater_core.znodes import is_host

Network = IPv4Network | IPv6Network


def parse_networks(text: str) -> tuple[Network, ...]:
    """Return the networks of a comma-separated list such as "10.1.0.0/16, ::1/128".

    Raises:
        ValueError: one of them is no network.
    """
    return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())


NO_METRICS = -1
"""As metrics_port: the node tells no metrics itself."""


def check_metrics_port(port: int) -> None:
    """Refuse a port at which no node could listen.

    Raises:
        ValueError: it is neither a port nor NO_METRICS.
    """
    if port != NO_METRICS and not 0 < port < 65_536:
        raise ValueError(f"metrics_port must be from 1 to 65535, or {NO_METRICS}, not {port}")


def check_announced(name: str, host: str, port: int) -> None:
    """Refuse an address that other nodes would take for malformed.

    Raises:
        ValueError: no node can be reached at this address.
    """
    if not is_host(host):
        raise ValueError(f"{name}_host must be a host's name or address, not {host[:300]!r}")
    if not 0 < port < 65_536:
        raise ValueError(f"{name}_port must be from 1 to 65535, not {port}")
