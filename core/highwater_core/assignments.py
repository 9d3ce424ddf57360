"""The brokers of new partitions' replicas, and the check of a given assignment. Pure.

Source: Kafka's AdminUtils.assignReplicasToBrokersRackUnaware.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from highwater_core.check import check
from highwater_core.ids import NodeId

Assignment = tuple[tuple[NodeId, ...], ...]

MAX_PARTITION_COUNT = 10_000
"""Of one topic, and of all topics of one request, as in Kafka's KRaft controller."""


def assign_replicas(
    brokers: Sequence[NodeId],
    partition_count: int,
    replication_factor: int,
    start_index: int,
    start_shift: int,
) -> Assignment:
    """Return each partition's replicas, preferred first, spread evenly over the brokers.

    First replicas rotate from start_index; the others follow at a shift that grows by one each
    time the first replicas have gone round, so that a dead broker's load spreads over all.
    """
    ordered = sorted(brokers)
    count = len(ordered)
    check(0 < replication_factor <= count, "more replicas than brokers")
    assignment = []
    for partition in range(partition_count):
        first = (start_index + partition) % count
        shift = start_shift + partition // count
        others = (
            ordered[(first + 1 + (shift + number) % (count - 1)) % count]
            for number in range(replication_factor - 1)
        )
        assignment.append((ordered[first], *others))
    return tuple(assignment)


def assign_more_replicas(
    brokers: Sequence[NodeId], assigned: Assignment, total_count: int
) -> Assignment:
    """Return the replicas of a topic's added partitions.

    The rounds go on as if the first partition had begun them, and each partition has as many
    replicas as that one. Source: Kafka's AdminZkClient.createPartitionsWithAssignment.
    """
    ordered = sorted(brokers)
    preferred = assigned[0][0]
    start_index = next((at for at, broker in enumerate(ordered) if broker >= preferred), 0)
    factor = len(assigned[0])
    everything = assign_replicas(ordered, total_count, factor, start_index, start_index)
    return everything[len(assigned) :]


def find_assignment_fault(
    assignment: Assignment, live: Set[NodeId], first_partition: int = 0
) -> str:
    """Return the fault of a client's assignment; empty when it is valid.

    The assignment begins with first_partition.
    """
    factors = {len(replicas) for replicas in assignment}
    if 0 in factors:
        return "a partition has no replica"
    if len(factors) > 1:
        return "partitions have different numbers of replicas"
    for number, replicas in enumerate(assignment, first_partition):
        if len(set(replicas)) != len(replicas):
            return f"partition {number} names a broker twice"
        unknown = [broker for broker in replicas if broker not in live]
        if unknown:
            named = ", ".join(map(str, unknown[:10]))
            return f"partition {number} names {len(unknown)} brokers that are not live: {named}"
    return ""
