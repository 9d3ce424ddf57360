"""Writes a leader's ISR as the leader does once followers have caught up."""

from __future__ import annotations

from highwater_core.ids import NodeId, TopicPartition
from highwater_core.messages import AlterPartitionItem, AlterPartitionRequest, IsrMember

P0 = TopicPartition("t", 0)


def join(cluster, *isr, at=P0, controller_id=1000, settles_ms=300):
    """Have the leader write this ISR, as it does once followers have caught up."""
    state = cluster.state(at.topic, at.partition)
    leader = cluster.brokers[state.leader]
    told = leader.leaderships()[at]
    context = cluster.controllers[controller_id]._controller.term.context
    partition_epoch = context.leaderships[at].partition_epoch
    members = tuple(IsrMember(NodeId(b), context.broker_epoch(NodeId(b)) or -1) for b in isr)
    item = AlterPartitionItem(at, told.leader_epoch, members, partition_epoch, told.topic_id)
    request = AlterPartitionRequest(leader.id, context.broker_epoch(leader.id), (item,))
    response = cluster.ask(request, controller_id)
    cluster.settle(settles_ms)
    return response.results[0].error
