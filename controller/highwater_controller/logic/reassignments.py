"""How a partition's replicas are moved from brokers to brokers. Pure.

A partition under reassignment is assigned to all of its replicas, those that come and those that
go: the target's first. The target is all but those that go.
Source: KIP-455 and Kafka's onPartitionReassignment; docs/explanation/replication.md,
"Invariants", I18.
Deviation: Kafka stops at once what an earlier target of an overlapping reassignment had added. Here
that goes with the others: it may be all that is in sync.
"""

from __future__ import annotations

from collections.abc import Set

from highwater_controller.logic.leadership_change import Brokers
from highwater_core.ids import NodeId
from highwater_core.topic_znode import Reassignment
from highwater_core.znodes import MAX_REPLICAS

NOT_REASSIGNED = Reassignment()


def target_of(replicas: Brokers, reassignment: Reassignment) -> Brokers:
    """Return the replicas that are to be left, preferred first."""
    return tuple(broker for broker in replicas if broker not in reassignment.removing)


def original_of(replicas: Brokers, reassignment: Reassignment) -> Brokers:
    """Return the replicas that there were before the reassignment.

    Their order is that of the target, where both have a replica: nobody keeps the former one.
    """
    return tuple(broker for broker in replicas if broker not in reassignment.adding)


def reassign(
    replicas: Brokers, reassignment: Reassignment, target: Brokers
) -> tuple[Brokers, Reassignment]:
    """Return all replicas and who of them comes and goes, once the target is asked for.

    The target may overlap with a reassignment under way, or give it up. Replicas that an earlier
    target had added, and that go again, are in both lists: so the original ones are known.
    """
    original = original_of(replicas, reassignment)
    removing = tuple(broker for broker in replicas if broker not in target)
    left = target + removing
    adding = tuple(broker for broker in left if broker not in original)
    return left, Reassignment(adding, removing)


def is_given_up(reassignment: Reassignment) -> bool:
    """Return whether the target is what there was before: just what had come is to go."""
    return bool(reassignment.adding) and set(reassignment.adding) == set(reassignment.removing)


def staying(members: Brokers, target: Brokers) -> Brokers:
    """Return the members of an ISR or ELR that are left once the others have gone."""
    return tuple(broker for broker in members if broker in target)


def find_target_fault(target: Brokers, assigned: Brokers, live: Set[NodeId]) -> str:
    """Return why the partition cannot have these replicas, empty where it can.

    A broker that is away may keep a replica that it has, but may not get one.
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
    """Return whether the replicas that go may go: all of the target are in sync, and live."""
    return all(broker in isr and broker in live for broker in target)


def may_give_up(target: Brokers, isr: Brokers, live: Set[NodeId], min_insync_replicas: int) -> bool:
    """Return whether a reassignment that is given up may end, though an original replica lags.

    What is left of the ISR must be live, and take writes if the ISR does now.
    """
    left = [broker for broker in isr if broker in target and broker in live]
    return bool(left) and len(left) >= min(min_insync_replicas, len(isr))
