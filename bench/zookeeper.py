"""The bench's lookups in a measured system's ZooKeeper."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from kazoo.client import KazooClient

from bench import measures
from bench.systems import System


@contextmanager
def zookeeper_of(system: System) -> Iterator[KazooClient]:
    client = KazooClient(hosts=str(system.zookeeper), read_only=True)
    client.start(timeout=30)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def await_gone(zookeeper: KazooClient, path: str, within_s: float) -> float:
    """Return when the znode was gone, by the monotonic clock in seconds.

    Raises:
        TimeoutError: it still exists then.
    """
    measures.wait_until(lambda: zookeeper.exists(path) is None, within_s, f"{path} is gone")
    return time.monotonic()
