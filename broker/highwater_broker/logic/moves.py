"""Decides what a partition's leader does next to move its replicas: the first design (V2). Pure.

Each step is decided from ZooKeeper's content and the live brokers alone, so that the next leader
goes on where one has died.
Source: the first design (V2), onPartitionsReassigned; docs/decisions/0010.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from highwater_broker.logic.first_design import replicas_to_start
from highwater_core.ids import NodeId
from highwater_core.reassignments import (
    NOT_REASSIGNED,
    Brokers,
    find_target_fault,
    is_given_up,
    may_complete,
    may_give_up,
    original_of,
    reassign,
    staying,
    target_of,
)
from highwater_core.topic_znode import Reassignment


@dataclass(frozen=True, slots=True)
class MoveFacts:
    """What is known of a partition whose leader this broker is."""

    leader: NodeId
    replicas: Brokers
    """AR, with the adding and removing ones."""
    reassignment: Reassignment
    """The one that the topic's znode has; NOT_REASSIGNED where none is under way."""
    asked: Brokers | None
    """RAR; None where nobody asks for replicas, so that a move under way is given up."""
    isr: Brokers
    live: Set[NodeId]
    min_insync_replicas: int


class Impossible(Exception):
    """The partition cannot have the replicas that are asked for."""


@dataclass(frozen=True, slots=True)
class Begin:
    """Write AR + RAR with the adding and removing ones; send start-replica to RAR - AR."""

    replicas: Brokers
    reassignment: Reassignment
    started: Brokers


@dataclass(frozen=True, slots=True)
class Complete:
    """Write AR = RAR, and the ISR within it; send close-replica to AR - RAR."""

    replicas: Brokers
    isr: Brokers
    closed: Brokers
    leads_on: bool
    """Whether the leader is in RAR; else it gives the leader path up."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Not all replicas are in sync that must be."""


Next = Begin | Complete | Wait


def next_step(facts: MoveFacts) -> Next | None:
    """Return the leader's next step; None where no replica is to be moved.

    Raises:
        Impossible: the partition cannot have the replicas that are asked for.
    """
    known = facts.replicas, facts.reassignment
    if facts.asked is None and facts.reassignment == NOT_REASSIGNED:
        return None
    target = original_of(*known) if facts.asked is None else facts.asked
    move = reassign(*known, target)
    if move != known:
        if fault := find_target_fault(target, facts.replicas, facts.live):
            raise Impossible(fault)
        return Begin(*move, replicas_to_start(target, facts.replicas))
    return _complete(facts) if _may_complete(facts) else Wait()


def _may_complete(facts: MoveFacts) -> bool:
    """Return whether the removing replicas may go: no record is lost by that.

    Where a move is given up it is enough that the ISR keeps its members, or enough of them.
    """
    target = target_of(facts.replicas, facts.reassignment)
    if not staying(facts.isr, target):
        return False
    if facts.reassignment == NOT_REASSIGNED:  # another order, or the replicas that there are
        return True
    if may_complete(target, facts.isr, facts.live):
        return True
    if not is_given_up(facts.reassignment):
        return False
    least = facts.min_insync_replicas
    return set(facts.isr) <= set(target) or may_give_up(target, facts.isr, facts.live, least)


def _complete(facts: MoveFacts) -> Complete:
    target = target_of(facts.replicas, facts.reassignment)
    return Complete(
        target,
        staying(facts.isr, target),
        facts.reassignment.removing,
        facts.leader in target,
    )
