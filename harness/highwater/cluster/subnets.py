"""Chooses an unused /24 for a cluster's network; pure but for reading routes."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network
from pathlib import Path

DEFAULT_POOL = IPv4Network("10.213.0.0/16")
POOL_VARIABLE = "HIGHWATER_SUBNET_POOL"
ROUTES = Path("/proc/net/route")


def candidates(
    pool: IPv4Network, taken: Iterable[IPv4Network], *, key: str
) -> Iterator[IPv4Network]:
    """Yield the pool's /24s that overlap nothing taken.

    The first one depends on the key (the run's id), so that clusters that start at the same moment
    request different subnets; the engine decides.
    """
    subnets = list(pool.subnets(new_prefix=24)) if pool.prefixlen < 24 else [pool]
    first = zlib.crc32(key.encode()) % len(subnets)
    taken = list(taken)
    for subnet in subnets[first:] + subnets[:first]:
        if not any(subnet.overlaps(other) for other in taken):
            yield subnet


def parse_routes(text: str) -> list[IPv4Network]:
    """Return the networks of /proc/net/route, without the default route.

    Addresses there are hexadecimal in the host's byte order, little-endian on all that run Docker.
    """
    networks = []
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 8:
            continue
        address = int.from_bytes(bytes.fromhex(fields[1]), "little")
        mask = int.from_bytes(bytes.fromhex(fields[7]), "little")
        if mask:
            networks.append(IPv4Network((address & mask, mask.bit_count())))
    return networks


def host_routes() -> list[IPv4Network]:
    """Return this machine's routes; none where /proc does not have them."""
    try:
        return parse_routes(ROUTES.read_text(encoding="ascii"))
    except OSError:
        return []
