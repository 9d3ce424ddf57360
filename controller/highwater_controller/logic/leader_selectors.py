"""Choose a partition's next leader: the selectors and the first election. Pure.

All scan in the order of the assignment; ISRs keep their order.
Source: V3 design, on_broker_change and init_leaders; docs/explanation/replication.md, "The
controller".
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from enum import StrEnum

from highwater_controller.logic.leadership_change import Brokers
from highwater_core.ids import NodeId


class Selector(StrEnum):
    """The occasion of an election, which decides the rule; `initial` is a partition's first."""

    INITIAL = "initial"
    OFFLINE = "offline"
    REASSIGN = "reassign"
    PREFERRED = "preferred"
    UNCLEAN = "unclean"
    """As after a leader's death; requested by a client, even if records are lost."""
    CONTROLLED_SHUTDOWN = "controlled_shutdown"
    SUSPECTED = "suspected"
    """The leader seems to have died, and its session has not ended."""


@dataclass(frozen=True, slots=True)
class Elected:
    """Invariant: leader is in isr. unclean: the leader was not in the ISR, records may be lost."""

    leader: NodeId
    isr: Brokers
    unclean: bool = False


@dataclass(frozen=True, slots=True)
class NoLeader:
    """No replica may lead; the reason is for the trace."""

    reason: str


Election = Elected | NoLeader


def elect_initial(assigned: Brokers, live: Set[NodeId], adding: Brokers = ()) -> Election:
    """Elect for a new partition: its first live replica leads, all live ones are the ISR.

    If its replicas are being moved it had records, and its state was removed by hand. Added
    replicas are empty, and are elected only where none of the others is live.
    """
    live_replicas = tuple(broker for broker in assigned if broker in live)
    isr = tuple(broker for broker in live_replicas if broker not in adding) or live_replicas
    return Elected(isr[0], isr) if isr else NoLeader("no replica is live")


def elect_offline(
    assigned: Brokers, isr: Brokers, live: Set[NodeId], unclean: bool, adding: Brokers = ()
) -> Election:
    """Elect after a leader's death: a live ISR member, else (unclean) any live replica alone.

    While replicas are being moved, added ones come first in the assignment and may be empty: out of
    the ISR they are elected only where none of the others is live.
    """
    live_isr = tuple(broker for broker in isr if broker in live)
    for broker in assigned:
        if broker in live_isr:
            return Elected(broker, live_isr)
    if not unclean:
        return NoLeader("no ISR member is live")
    for broker in sorted(assigned, key=lambda each: each in adding):
        if broker in live:
            return Elected(broker, (broker,), unclean=True)
    return NoLeader("no replica is live")


def elect_reassign(target: Brokers, isr: Brokers, live: Set[NodeId]) -> Election:
    """Elect the first of the reassignment's target that is live and in sync; the ISR stays."""
    for broker in target:
        if broker in live and broker in isr:
            return Elected(broker, isr)
    return NoLeader("no replica of the target is live and in sync")


def elect_preferred(assigned: Brokers, isr: Brokers, live: Set[NodeId]) -> Election:
    """Elect the assignment's head if it is live and in sync; the ISR stays."""
    head = assigned[0] if assigned else None
    if head is not None and head in live and head in isr:
        return Elected(head, isr)
    return NoLeader("the preferred replica is not live and in sync")


def elect_without(
    assigned: Brokers, isr: Brokers, live: Set[NodeId], leaving: Set[NodeId]
) -> Election:
    """Elect the first remaining ISR member; those that shut down or are suspected leave the ISR.

    live: without those that leave.
    """
    staying = tuple(broker for broker in isr if broker not in leaving)
    for broker in assigned:
        if broker in staying and broker in live:
            return Elected(broker, staying)
    return NoLeader("no other ISR member is live")
