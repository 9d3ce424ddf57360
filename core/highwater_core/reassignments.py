"""How a partition's replicas are moved from brokers to brokers. Pure.

A controller moves them, or under preset v2 the partition's leader: both decide here.
A partition under reassignment is assigned to all of its replicas, with added and removing ones; the
target's come first. The target is all but the removing ones.
Source: KIP-455 and Kafka's onPartitionReassignment; docs/reference/invariants.md, I18.
Deviation: Kafka stops at once the replicas that an earlier target of an overlapping reassignment
had added. Here they are removed with the others: they may be the only ones in sync.
"""

from __future__ import annotations

from collections.abc import Set

from highwater_core.ids import NodeId
from highwater_core.topic_znode import Reassignment
from highwater_core.znodes import MAX_REPLICAS

Brokers = tuple[NodeId, ...]

NOT_REASSIGNED = Reassignment()


def target_of(replicas: Brokers, reassignment: Reassignment) -> Brokers:
    """Return the target's replicas, preferred first."""
    return tuple(broker for broker in replicas if broker not in reassignment.removing)


def original_of(replicas: Brokers, reassignment: Reassignment) -> Brokers:
    """Return the replicas from before the reassignment.

    Replicas that both have are in the target's order, since the former order is not stored.
    """
    return tuple(broker for broker in replicas if broker not in reassignment.adding)


def reassign(
    replicas: Brokers, reassignment: Reassignment, target: Brokers
) -> tuple[Brokers, Reassignment]:
    """Return all replicas, with the adding and removing ones, for a requested target.

    The target may overlap with a reassignment under way, or cancel it. Replicas that an earlier
    target had added, and that are removed again, are in both lists, so that the original ones are
    known.
    """
    original = original_of(replicas, reassignment)
    removing = tuple(broker for broker in replicas if broker not in target)
    left = target + removing
    adding = tuple(broker for broker in left if broker not in original)
    return left, Reassignment(adding, removing)


def is_given_up(reassignment: Reassignment) -> bool:
    """Return whether the target are the original replicas: only added ones are removed."""
    return bool(reassignment.adding) and set(reassignment.adding) == set(reassignment.removing)


def staying(members: Brokers, target: Brokers) -> Brokers:
    """Return the members of an ISR or ELR that are not removed."""
    return tuple(broker for broker in members if broker in target)


def find_target_fault(target: Brokers, assigned: Brokers, live: Set[NodeId]) -> str:
    """Return why the partition cannot have these replicas, empty where it can.

    A dead broker may keep a replica that it has, but may not get one.
    """
    if not target:
        return "no replica is named"
    if len(target) > MAX_REPLICAS:
        return f"{len(target)} replicas: at most {MAX_REPLICAS}"
    if len(set(target)) != len(target):
        return f"a broker is named twice in {list(target)}"
    away = [broker for broker in target if broker not in assigned and broker not in live]
    if away:
        return f"brokers {away} are not live"
    return ""


def may_complete(target: Brokers, isr: Brokers, live: Set[NodeId]) -> bool:
    """Return whether the removing replicas may go: all of the target are in sync and live."""
    return all(broker in isr and broker in live for broker in target)


def may_give_up(target: Brokers, isr: Brokers, live: Set[NodeId], min_insync_replicas: int) -> bool:
    """Return whether a cancelled reassignment may end, even if an original replica lags.

    The remaining ISR members must be live, and enough for writes if the ISR is now.
    """
    left = [broker for broker in isr if broker in target and broker in live]
    return bool(left) and len(left) >= min(min_insync_replicas, len(isr))
