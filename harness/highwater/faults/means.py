"""The means that faults on containers are done with. A table; capabilities.py tries them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Means(StrEnum):
    """Means that faults may need; DOES describes each."""

    ENGINE = "engine"
    FREEZER = "freezer"
    SIZED_DISKS = "sized_disks"
    FAULTY_DISKS = "faulty_disks"
    MOVABLE_CLOCKS = "movable_clocks"
    NAMESPACE = "namespace"
    TIMED_DROPS = "timed_drops"
    SHARES = "shares"
    RESETS = "resets"
    QUEUE = "queue"


DOES: Mapping[Means, str] = {
    Means.ENGINE: "a Docker engine runs containers of the node image",
    Means.FREEZER: "the engine pauses a container, and lets it go on",
    Means.SIZED_DISKS: "the engine makes volumes in memory that have a size",
    Means.FAULTY_DISKS: "a container mounts a file system of its own over its folder (FUSE)",
    Means.MOVABLE_CLOCKS: "a process has a wall clock of its own, and timers by the machine's",
    Means.NAMESPACE: "a helper joins a network namespace, with NET_ADMIN and nothing else",
    Means.TIMED_DROPS: "nft drops by a set whose elements the kernel takes out at their time",
    Means.SHARES: "nft drops a random share of packets (numgen)",
    Means.RESETS: "the kernel destroys a connection on request (sock_diag)",
    Means.QUEUE: "a helper holds packets back (NFQUEUE with bypass; its table ends with it)",
}

IN_A_NAMESPACE = frozenset(
    {Means.NAMESPACE, Means.TIMED_DROPS, Means.SHARES, Means.RESETS, Means.QUEUE}
)
"""The means that need helpers in nodes' network namespaces."""
