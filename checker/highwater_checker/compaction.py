"""What compaction may take from a log: a record that a newer committed one of its key succeeds.

A record without a value goes too, in time. Clients of plans write none, and group coordinators do.
"""

from __future__ import annotations

from collections.abc import Iterable

from highwater_checker.segments import ReplicaLog

Newest = dict[bytes, int]
"""The newest offset of each key."""


def newest_of_keys(replicas: Iterable[ReplicaLog]) -> Newest:
    """Return the newest committed offset of each key in any of the logs that are compacted."""
    newest: Newest = {}
    for replica in replicas:
        for batch in replica.batches if replica.is_compacted else ():
            for offset, key, _ in batch.records():
                if key is not None and offset < replica.high_watermark:
                    newest[key] = max(offset, newest.get(key, -1))
    return newest


def is_succeeded(key: bytes | None, offset: int, newest: Newest) -> bool:
    """Return whether a newer record of the key is there."""
    return key is not None and newest.get(key, -1) > offset
