"""Finds a plan's nodes and conditions in looks at a cluster and in trace events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from highwater.report.observation import active_controller
from highwater_chaos.plan import Observed, When
from highwater_checker.looks import Look, leaderships, replicas_of
from highwater_core.events import TraceEvent
from highwater_core.ids import TopicPartition


def find_node(look: Look, names: Mapping[str, int], words: str) -> int | None:
    """Return the id of the node that the words name in this look, None when there is none."""
    if words == "active controller":
        active = active_controller(look)
        return None if active is None else int(active.node_id)
    role, _, partition = words.partition(" of ")
    if role in ("leader", "follower", "last follower"):
        return _leader_or_follower(look, role, TopicPartition.named(partition))
    return names.get(words)


def _leader_or_follower(look: Look, role: str, at: TopicPartition) -> int | None:
    leadership = leaderships(look).get(at)
    if leadership is None:
        return None
    if role == "leader":
        return int(leadership.leader)
    followers = [int(broker) for broker in leadership.isr if broker != leadership.leader]
    which = max if role == "last follower" else min
    return which(followers, default=None)


def holds(look: Look, when: When) -> bool:
    """Return whether the condition holds in this look.

    A look asks one node after another, so a log that grows meanwhile makes followers seem behind.
    """
    at = TopicPartition.named(when.partition)
    leadership = leaderships(look).get(at)
    if leadership is None:
        return False
    members = [
        replica
        for broker, replica in replicas_of(look, at).items()
        if broker in leadership.isr and broker != leadership.leader
    ]
    match when.state:
        case Observed.ISR_IS_LEADER:
            return leadership.isr == (leadership.leader,)
        case Observed.LEADER_EPOCH:
            return leadership.leader_epoch >= when.count
        case Observed.FOLLOWER_BEHIND:
            return any(each.log_end_offset < leadership.log_end_offset for each in members)
        case Observed.HIGH_WATERMARK_BEHIND:
            return any(each.high_watermark < leadership.high_watermark for each in members)
        case Observed.EVENT:
            return False


@dataclass(slots=True)
class Waiting:
    """A condition that has not held yet; it is awaited once."""

    when: When
    seen: int = 0

    def is_met(self, look: Look, events: tuple[TraceEvent, ...], names: Mapping[str, int]) -> bool:
        """Take the new look and events, and return whether the condition holds now."""
        if self.when.state is not Observed.EVENT:
            return holds(look, self.when)
        self.seen += sum(self._is_awaited(event, look, names) for event in events)
        return self.seen >= self.when.count

    def _is_awaited(self, event: TraceEvent, look: Look, names: Mapping[str, int]) -> bool:
        when = self.when
        if when.event != event.kind:
            return False
        if when.partition and when.partition != f"{event.topic}-{event.partition}":
            return False
        return not when.node or find_node(look, names, when.node) == event.node
