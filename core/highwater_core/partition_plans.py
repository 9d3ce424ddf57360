"""Decides the replicas of partitions that are added to a topic, or why they are refused. Pure.

A controller adds partitions, or under preset v2 the broker that a client asks: both decide here.
Source: KIP-195; Kafka's ZkAdminManager.createPartitions and AdminZkClient.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from highwater_core.admin_messages import NewPartitions
from highwater_core.assignments import (
    MAX_PARTITION_COUNT,
    Assignment,
    assign_more_replicas,
    find_assignment_fault,
)
from highwater_core.errors import ErrorCode
from highwater_core.ids import NodeId
from highwater_core.topic_plans import Refused, Room, refuse_partition_count


def refuse_unexpandable(numbers: Sequence[int], *, is_moved: bool) -> None:
    """Refuse a topic to which no partition can be added.

    numbers: of its partitions, in ascending order. is_moved: replicas of it are being moved.

    Raises:
        Refused: they are moved, or the numbers have gaps.
    """
    if is_moved:
        raise Refused(ErrorCode.REASSIGNMENT_IN_PROGRESS, "replicas of the topic are being moved")
    if not numbers or list(numbers) != list(range(len(numbers))):
        message = "the topic's partitions do not count from 0 without gaps"
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, message)


def plan_partitions(
    wanted: NewPartitions,
    assigned: Assignment,
    *,
    live: Collection[NodeId],
    may_host: Collection[NodeId],
    room: Room,
) -> Assignment:
    """Return the added partitions' replicas: the given ones, or as the topic's go on.

    assigned: of the topic's partitions. live: the brokers that a given assignment may name.
    may_host: those that partitions are spread over.

    Raises:
        Refused: the expansion is not allowed.
    """
    first = len(assigned)
    added_count = wanted.total_count - first
    if added_count <= 0:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"the topic has {first} partitions, and is to have {wanted.total_count}",
        )
    if wanted.total_count > MAX_PARTITION_COUNT:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"{wanted.total_count} partitions: there may be at most {MAX_PARTITION_COUNT}",
        )
    refuse_partition_count(added_count, room)
    factor = len(assigned[0])
    if not wanted.assignment:
        brokers = sorted(may_host)
        if not 0 < factor <= len(brokers):
            raise Refused(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"{factor} replicas on {len(brokers)} live brokers",
            )
        return assign_more_replicas(brokers, assigned, wanted.total_count)
    fault = ""
    if len(wanted.assignment) != added_count:
        given = len(wanted.assignment)
        fault = f"{added_count} partitions are to be added, and {given} have replicas"
    elif len(wanted.assignment[0]) != factor:
        fault = f"the topic has {factor} replicas of each partition"
    else:
        fault = find_assignment_fault(wanted.assignment, frozenset(live), first)
    if fault:
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, fault)
    return wanted.assignment
