"""A decision on a partition's leadership. Pure."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from highwater_core.ids import NodeId

Brokers = tuple[NodeId, ...]


@dataclass(frozen=True, slots=True)
class LeadershipChange:
    """The leader (perhaps NO_LEADER) and the ISR to write next.

    elr: the eligible leader replicas; None: they follow from the ISRs.
    unclean: the leader was not in the ISR, records may be lost.
    keeps_epoch: the leader epoch stays; else it rises by one.
    lost: replicas whose loss of records is the cause.
    """

    leader: NodeId
    isr: Brokers
    elr: Brokers | None = None
    unclean: bool = False
    keeps_epoch: bool = False
    lost: Set[NodeId] = frozenset()
