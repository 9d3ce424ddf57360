"""Trigger of the row about groups that are loaded or unloaded by another term than the current one.

Row 22 (KAFKA-2841, KAFKA-10614).
"""

from __future__ import annotations

from collections.abc import Sequence

from highwater_core.events import EventKind, TraceEvent
from highwater_core.internal_topics import OFFSETS_TOPIC

Replica = tuple[int, int]
"""A broker's id and a partition of the offsets topic."""

_LOST_LEAD = (EventKind.BECAME_FOLLOWER, EventKind.REPLICA_STOPPED)
_AFTER_AN_UNLOAD = (EventKind.REPLICA_STOPPED, EventKind.HIGH_WATERMARK_ADVANCED)


def coordinator_out_of_order(
    trace: Sequence[TraceEvent], topic: str, partition: int, offset: int
) -> str | None:
    """Row 22: a load ended in another term than it began in, or a leader's groups were unloaded.

    A broker unloads the groups of a partition that it leads before it stops the replica, and at no
    other time. A violation in the offsets topic asks for its own partition. One of a committed
    partition asks for any: the trace does not say in which partition its group lies.
    """
    terms: dict[Replica, int | None] = {}
    unloaded: dict[Replica, TraceEvent] = {}
    for event in trace:
        if event.kind is EventKind.NODE_STARTED:
            terms = {key: since for key, since in terms.items() if key[0] != event.node}
            unloaded = {key: each for key, each in unloaded.items() if key[0] != event.node}
        if event.topic != OFFSETS_TOPIC or event.partition is None:
            continue
        if topic == OFFSETS_TOPIC and event.partition != partition:
            continue
        key = event.node, event.partition
        if key in unloaded and event.kind not in _AFTER_AN_UNLOAD:
            return _unloaded(unloaded[key])
        if event.kind is EventKind.BECAME_LEADER:
            terms.setdefault(key, event.leader_epoch)
        elif event.kind in _LOST_LEAD:
            terms.pop(key, None)
            unloaded.pop(key, None)
        elif event.kind is EventKind.GROUP_UNLOADED and key in terms:
            unloaded[key] = event
        elif event.kind is EventKind.GROUP_LOAD_ENDED:
            since = event.detail.get("since_epoch", event.leader_epoch)
            if terms.get(key) != since:
                return (
                    f"broker {event.node} ended a load of groups in {OFFSETS_TOPIC}-{key[1]} that "
                    f"was begun in epoch {since}, {_said(terms.get(key))}"
                )
    return next(map(_unloaded, unloaded.values()), None)


def _said(since_epoch: int | None) -> str:
    if since_epoch is None:
        return "when it did not lead the partition"
    return f"when it led the partition since epoch {since_epoch}"


def _unloaded(event: TraceEvent) -> str:
    since = event.detail.get("since_epoch", event.leader_epoch)
    return (
        f"broker {event.node} unloaded the groups of {OFFSETS_TOPIC}-{event.partition}, loaded in "
        f"epoch {since}, and went on leading the partition"
    )
