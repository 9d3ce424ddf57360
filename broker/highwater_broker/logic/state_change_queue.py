"""Decides what a broker's queue of state changes keeps. Pure.

Source: the first design (V2), "State change communication": sendStateChange, isFull, shrink.
"""

from __future__ import annotations

from collections.abc import Mapping

from highwater_core.first_design_znodes import StateChange, StateChangeRequest
from highwater_core.ids import TopicPartition


class FollowerStateChangeQueueFull(Exception):
    """A broker's queue takes no more requests, also after it was shrunk."""


def is_full(length: int, most: int) -> bool:
    """Return whether a queue of that length takes no further request."""
    return length >= most


def superfluous(requests: Mapping[str, StateChangeRequest]) -> tuple[str, ...]:
    """Return the names of the requests that a shrunk queue does not keep, in the queue's order.

    It keeps one close-replica for each partition, that of the latest epoch, and of equal epochs the
    last one: a broker that comes back must still delete what it lost. No start-replica is kept: a
    broker that comes back starts all its assigned replicas.
    requests: by name, in the queue's order.
    """
    kept: dict[TopicPartition, str] = {}
    for name, request in requests.items():
        if request.change is StateChange.CLOSE_REPLICA:
            other = kept.get(request.topic_partition)
            if other is None or requests[other].leader_epoch <= request.leader_epoch:
                kept[request.topic_partition] = name
    names = set(kept.values())
    return tuple(name for name in requests if name not in names)
