"""Chooses free ports on this machine for listeners that must be advertised before they exist."""

from __future__ import annotations

import random
import socket
from collections.abc import Container
from itertools import islice

FIRST_PORT = 20_000
END_PORT = 32_000
"""Below the ports that kernels give to outgoing connections, so that a port stays free while its
node is down."""


def choose_ports(
    count: int, *, taken: Container[int] = (), bind_host: str = "127.0.0.1"
) -> tuple[int, ...]:
    """Return ports that are free at this moment; one may be taken when the engine binds it.

    Raises:
        OSError: fewer ports are free.
    """
    # In random order: clusters that start at the same moment try different ones.
    tried = random.sample(range(FIRST_PORT, END_PORT), END_PORT - FIRST_PORT)
    free = (port for port in tried if port not in taken and _is_free(bind_host, port))
    chosen = tuple(islice(free, count))
    if len(chosen) < count:
        raise OSError(f"no {count} free ports from {FIRST_PORT} to {END_PORT}")
    return chosen


def _is_free(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
