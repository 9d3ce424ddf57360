"""Takes leads and ISR memberships from a broker that seems to have died while its session lives.

A suspicion may be wrong. It does what an operator may do at any time: the lead goes to another ISR
member, at a higher leader epoch, and the broker leaves the ISRs. The broker gets the commands too:
if it lives it follows, and joins again. So an old leader that lives is fenced like any other that
was replaced. A partition whose only ISR member is suspected stays as it is until its session ends.
Source: docs/decisions/0017-a-broken-connection-is-a-hint.md.
"""

from __future__ import annotations

from highwater_controller.context import Replica
from highwater_controller.controlled_shutdown import online_leads
from highwater_controller.controller_events import BrokerSuspected
from highwater_controller.logic.leader_selectors import Selector
from highwater_controller.logic.partition_states import PartitionState
from highwater_controller.partition_state_machine import move_partitions
from highwater_controller.replica_state_machine import leave_isrs
from highwater_controller.request_batch import RequestBatch
from highwater_controller.term import Term
from highwater_core.events import EventKind


async def on_broker_suspected(term: Term, event: BrokerSuspected) -> None:
    """Take the lead from the broker, and it from the ISRs.

    Nothing happens if it is gone, registered anew, or answered meanwhile; if it shuts down, its
    leads have been moved.

    Ordering: partitions that it leads Online under another ISR member -> it leaves the ISRs of
    those that it follows.
    """
    context = term.context
    broker = event.broker_id
    known = context.live_brokers.get(broker)
    channel = term.channels.find(broker)
    watch = None if channel is None else channel.watch
    is_stale = known is None or known.broker_epoch != event.broker_epoch
    if is_stale or watch is None or not watch.is_suspected or broker in context.shutting_down:
        return
    term.emit(
        EventKind.BROKER_SUSPECTED, broker=broker, broker_epoch=event.broker_epoch, why=event.why
    )
    shared = [
        partition
        for partition in context.partitions_on(broker)
        if partition in context.leaderships
        and context.leaderships[partition].leadership.isr != (broker,)
        and not context.is_to_be_deleted(partition.topic)
    ]
    led = online_leads(context, shared, broker)
    context.suspected.add(broker)
    await move_partitions(term, led, PartitionState.ONLINE, Selector.SUSPECTED)
    context.suspected.discard(broker)
    followed = [
        Replica(partition, broker)
        for partition in shared
        if partition not in led and broker in context.leaderships[partition].leadership.isr
    ]
    batch = RequestBatch(term)
    for replica in await leave_isrs(term, batch, followed):
        batch.add_leader_and_isr([broker], replica.topic_partition)
    batch.send()
