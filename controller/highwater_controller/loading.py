"""Loads partitions from ZooKeeper into the context, in the states in which they are found.

For a new controller's failover, and for new topics with written state znodes.
Source: the state machines' start-up, docs/explanation/replication.md, "The controller", Failover.
"""

from __future__ import annotations

from collections.abc import Iterable

from highwater_controller.context import Replica
from highwater_controller.logic.partition_states import PartitionState, initial_state
from highwater_controller.logic.replica_states import ReplicaState
from highwater_controller.partition_state_machine import put_partition
from highwater_controller.replica_state_machine import put_replica
from highwater_controller.state_reader import read_leadership
from highwater_controller.term import Term
from highwater_core.ids import TopicPartition


async def load_leaderships(term: Term, partitions: Iterable[TopicPartition]) -> None:
    """Read the partitions' state znodes; a partition without one is left without leadership."""
    wanted = list(partitions)
    read = await term.store.each(wanted, lambda partition: read_leadership(term, partition))
    for partition, found in zip(wanted, read, strict=True):
        if found is not None:
            term.context.leaderships[partition] = found


def put_found_states(term: Term, partitions: Iterable[TopicPartition]) -> list[Replica]:
    """Set partitions and replicas to the states in which they are found; return live replicas.

    A dead replica counts as ineligible for deletion until its broker returns. A partition whose
    state znode is unreadable counts as Offline: it has an unknown state.
    """
    context = term.context
    live: list[Replica] = []
    for partition in partitions:
        state = initial_state(
            has_leadership=partition in context.leaderships,
            leader_is_live=context.has_live_leader(partition),
        )
        if partition in context.unreadable_partitions:
            state = PartitionState.OFFLINE
        put_partition(term, partition, state)
        for replica in context.replicas_of_partitions([partition]):
            is_live = replica.broker_id in context.live_brokers
            found = ReplicaState.ONLINE if is_live else ReplicaState.DELETION_INELIGIBLE
            put_replica(term, replica, found)
            if is_live:
                live.append(replica)
    return live
