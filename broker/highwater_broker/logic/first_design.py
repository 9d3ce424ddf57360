"""Decides who leads and who is in sync where brokers elect leaders: the first design (V2). Pure.

Source: the first design (V2), "State change operations". It leaves leaderElection and getNewEpoch
out; docs/decisions/0010 has how they are settled.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from highwater_core.ids import NO_EPOCH, NO_LEADER, LeaderEpoch, NodeId, Offset


class NotReplicaForPartition(Exception):
    """Names the refusal of start-replica: the broker is none of the partition's replicas."""


class ReplicaIsAssigned(Exception):
    """Names the refusal of close-replica: the broker is one of the partition's replicas."""


# ---------------------------------------------------------------- leader election


def may_run(
    broker_id: NodeId,
    assigned_replicas: Collection[NodeId],
    isr: Collection[NodeId],
    live: Collection[NodeId],
    *,
    anyone: bool = False,
) -> bool:
    """Return whether a replica may run for leader: it is in the ISR, or there is no ISR yet.

    anyone: unclean elections are allowed. Then an assigned replica may run if no member of the
    ISR lives.
    """
    if broker_id not in assigned_replicas:
        return False
    if not isr or broker_id in isr:
        return True
    return anyone and not any(member in live for member in isr)


def may_lead_unclean(
    broker_id: NodeId,
    assigned_replicas: Collection[NodeId],
    adding: Collection[NodeId],
    live: Collection[NodeId],
) -> bool:
    """Return whether a replica outside the ISR may lead, where unclean elections are allowed.

    One that a move adds may be empty: it leaves the lead to those that were there before it.
    """
    return broker_id not in adding or not any(
        each in live and each not in adding for each in assigned_replicas
    )


def get_new_epoch(written: LeaderEpoch, known: LeaderEpoch) -> LeaderEpoch:
    """Return the epoch of a leader that takes over.

    It is above the one that ZooKeeper has, and above the one in which this broker knows the
    partition: a znode that was set back must not bring an epoch again.
    """
    return LeaderEpoch(max(written, known, NO_EPOCH) + 1)


def strangers(
    assigned_replicas: Collection[NodeId], leader: NodeId, isr: Collection[NodeId]
) -> tuple[NodeId, ...]:
    """Return the leader and the members of the ISR that are not assigned, each once, ascending.

    Without any assigned replica the partition is not known, and none is returned.
    """
    if not assigned_replicas:
        return ()
    named = {*isr} if leader == NO_LEADER else {*isr, leader}
    return tuple(sorted(named.difference(assigned_replicas)))


# ---------------------------------------------------------------- taking over


def is_taken_over(
    high_watermark: Offset,
    followers: Mapping[NodeId, Offset],
    live: Collection[NodeId],
    waited_ms: int,
    keep_in_sync_time_ms: int,
) -> bool:
    """Return whether a new leader need wait no longer for the other replicas.

    Each live one has caught up, or KeepInSyncTime has passed. followers: the other assigned
    replicas, with the ends of their logs.
    """
    return waited_ms >= keep_in_sync_time_ms or all(
        end_offset >= high_watermark for broker, end_offset in followers.items() if broker in live
    )


def in_sync(
    leader: NodeId, high_watermark: Offset, followers: Mapping[NodeId, Offset]
) -> tuple[NodeId, ...]:
    """Return the ISR with which a leader begins: it, and the replicas that have caught up."""
    return (leader, *(each for each, end in followers.items() if end >= high_watermark))


def catching_up(
    assigned_replicas: tuple[NodeId, ...], isr: Collection[NodeId]
) -> tuple[NodeId, ...]:
    """Return CUR = AR - ISR."""
    return tuple(each for each in assigned_replicas if each not in isr)


def replicas_to_start(
    reassigned: tuple[NodeId, ...], assigned_replicas: Collection[NodeId]
) -> tuple[NodeId, ...]:
    """Return RAR - AR: where onPartitionsReassigned sends start-replica."""
    return tuple(each for each in reassigned if each not in assigned_replicas)
