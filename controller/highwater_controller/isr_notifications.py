"""Notifications of leaders that wrote their ISRs themselves; the controller sends UpdateMetadata.

Source: docs/explanation/replication.md, "ZooKeeper's tree", /isr_change_notification; preset v3.
"""

from __future__ import annotations

from highwater_controller.loading import load_leaderships
from highwater_controller.reassignment import advance_reassignments
from highwater_controller.request_batch import RequestBatch
from highwater_controller.state_reader import report_malformed
from highwater_controller.term import Term
from highwater_core import znodes
from highwater_core.ids import TopicPartition
from highwater_core.znodes import MalformedZnode


async def on_isr_changes_notified(term: Term) -> None:
    """Read the states that changed, tell all brokers, and delete the notifications read.

    Ordering: notifications read, and watched -> the states that they name read -> UpdateMetadata ->
    reassignments advanced -> notifications deleted: a controller that dies before leaves them.
    """
    paths = await _notifications(term)
    named: dict[TopicPartition, None] = {}
    for path in paths:
        read = await term.store.get(path)
        if read is None:
            continue
        try:
            listed = znodes.decode(znodes.PartitionsZnode, read[0], path).partitions
        except MalformedZnode as fault:
            report_malformed(term, path, fault)
            continue
        named.update((TopicPartition(item.topic, item.partition), None) for item in listed)
    changed = sorted(partition for partition in named if partition in term.context.assignments)
    await load_leaderships(term, changed)
    if changed:
        batch = RequestBatch(term)
        batch.add_update_metadata(term.context.live_brokers, changed)
        batch.send()
        await advance_reassignments(term, changed)
    for path in paths:
        await term.store.delete(path)


async def delete_notifications(term: Term) -> None:
    """Delete the notifications, and watch for more."""
    for path in await _notifications(term):
        await term.store.delete(path)


async def _notifications(term: Term) -> list[str]:
    names = await term.store.children(znodes.ISR_CHANGE_NOTIFICATION, watch=True)
    return [f"{znodes.ISR_CHANGE_NOTIFICATION}/{name}" for name in names]
