"""The state-change log: the controllers' changes of partitions and replicas, one a line; no I/O.

Each line has the component (with the prefix of Kafka's StateChangeLogger), the partition
or replica, the old and the new state, the epochs and the reason. Other events of the controllers in
between have lines too.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import TopicPartition


class Machine(StrEnum):
    """The component of a line."""

    CONTROLLER = "Controller"
    PARTITIONS = "PartitionStateMachine"
    REPLICAS = "ReplicaStateMachine"


class About(StrEnum):
    """The kind of thing that changes."""

    STATE = "state"
    """The state of a partition or a replica in its state machine."""
    LEADERSHIP = "leadership"
    """A partition's leader, ISR or leader epoch."""
    EVENT = "event"
    """Neither: an event or a decision of the controller."""


class Outcome(StrEnum):
    """The outcome of a change."""

    CHANGED = "changed"
    REFUSED = "refused"
    """The state machine does not have the transition: a bug of the controller."""
    FAILED = "failed"
    """The change is impossible at the moment; the state stays."""


@dataclass(frozen=True, slots=True)
class StateChange:
    """One line of the log.

    Units: ts_ns is the controller's wall clock, nanoseconds since 1970 (virtual in the simulator).
    topic: None where the line concerns no topic.
    partition: None where it concerns none or all of the topic's.
    replica: the broker, None where the partition changes.
    brokers: all brokers in the line.
    before: "" where it is not known.
    trigger: the event or request that was being handled.
    """

    ts_ns: int
    controller: int
    controller_epoch: int | None
    machine: Machine
    about: About
    outcome: Outcome
    topic: str | None
    partition: int | None
    replica: int | None
    before: str
    after: str
    leader_epoch: int | None
    partition_epoch: int | None
    reason: str
    trigger: str
    brokers: tuple[int, ...]

    @property
    def subject(self) -> str:
        """Return the partition or replica in words."""
        if self.topic is None:
            return ""
        at = self.topic if self.partition is None else f"{self.topic}-{self.partition}"
        return at if self.replica is None else f"{at} on broker {self.replica}"


_OUTCOMES = {
    EventKind.TRANSITION_REFUSED: Outcome.REFUSED,
    EventKind.STATE_CHANGE_FAILED: Outcome.FAILED,
    EventKind.PARTITION_STATE_CHANGED: Outcome.CHANGED,
    EventKind.REPLICA_STATE_CHANGED: Outcome.CHANGED,
}


def read_state_changes(events: Iterable[TraceEvent]) -> list[StateChange]:
    """Return the log of all controllers' events, each controller's in its own order."""
    lines: list[StateChange] = []
    known: dict[tuple[object, ...], TraceEvent] = {}
    for event in _in_order(events):
        if event.kind in _OUTCOMES:
            lines.append(_of_state(event))
        elif event.kind in _LEADERSHIPS:
            key = event.topic, event.topic_id, event.partition
            lines.append(_of_leadership(event, known.get(key)))
            known[key] = event
        elif event.kind in _MET:
            lines.append(_of_meeting(event))
    return lines


def select(
    lines: Iterable[StateChange],
    partitions: Collection[TopicPartition] = (),
    brokers: Collection[int] = (),
) -> list[StateChange]:
    """Return the lines on these partitions and brokers (empty: on any).

    A line without a topic concerns every partition, a line without a broker every broker.
    """

    def is_wanted(line: StateChange) -> bool:
        at_any = not partitions or line.topic is None
        return (at_any or any(_is_about(line, at) for at in partitions)) and (
            not brokers or not line.brokers or any(broker in line.brokers for broker in brokers)
        )

    return [line for line in lines if is_wanted(line)]


def to_text(line: StateChange, start_ns: int | None = None) -> str:
    """Return the line as it is printed; times from start_ns on, or else the time of day (UTC)."""
    prefix = f"[{line.machine} controllerId={line.controller}]"
    epoch = "" if line.controller_epoch is None else f" epoch {line.controller_epoch}"
    subject = line.subject and f" {line.subject}"
    why = ", ".join(each for each in (line.reason, line.trigger and f"on {line.trigger}") if each)
    told = f"{prefix}{epoch}:{subject} {_body(line)}"
    return f"{_time(line.ts_ns, start_ns)} {told}{why and f' ({why})'}"


def _body(line: StateChange) -> str:
    if line.about is About.EVENT:
        return line.after
    if line.about is About.LEADERSHIP:
        return f"{line.before or '?'} -> {line.after}"
    of_leader = "" if line.leader_epoch is None else f", leader epoch {line.leader_epoch}"
    if line.outcome is Outcome.CHANGED:
        return f"{line.before} -> {line.after}{of_leader}"
    instead = "no other leader" if line.before == line.after else f"not {line.after}"
    return f"stays {line.before}{of_leader}, {instead}: {line.outcome}"


def _time(ts_ns: int, start_ns: int | None) -> str:
    if start_ns is not None:
        return f"{(ts_ns - start_ns) / 1e9:9.3f} s"
    return datetime.fromtimestamp(ts_ns / 1e9, UTC).strftime("%H:%M:%S.%f")[:-3]


def _in_order(events: Iterable[TraceEvent]) -> Iterable[TraceEvent]:
    """Merge the nodes' traces by time, each node's in its own order."""
    by_node: dict[int, list[TraceEvent]] = {}
    for event in events:
        by_node.setdefault(event.node, []).append(event)
    each_in_order = [
        sorted(of_node, key=lambda event: (event.incarnation, event.seq))
        for _, of_node in sorted(by_node.items())
    ]
    return heapq.merge(*each_in_order, key=lambda event: event.ts_ns)


def _is_about(line: StateChange, at: TopicPartition) -> bool:
    return line.topic == at.topic and line.partition in (None, at.partition)


# ---------------------------------------------------------------- lines


def _line(event: TraceEvent, machine: Machine, about: About, **more: Any) -> StateChange:
    defaults: dict[str, Any] = {
        "outcome": Outcome.CHANGED,
        "replica": None,
        "before": "",
        "reason": "",
        "brokers": (),
    }
    return StateChange(
        ts_ns=event.ts_ns,
        controller=event.node,
        controller_epoch=event.controller_epoch,
        machine=machine,
        about=about,
        topic=event.topic,
        partition=event.partition,
        leader_epoch=event.leader_epoch,
        partition_epoch=event.detail.get("partition_epoch"),
        trigger=event.detail.get("trigger", ""),
        **(defaults | more),
    )


def _of_state(event: TraceEvent) -> StateChange:
    detail = event.detail
    replica = detail.get("replica")
    return _line(
        event,
        Machine.PARTITIONS if replica is None else Machine.REPLICAS,
        About.STATE,
        outcome=_OUTCOMES[event.kind],
        replica=replica,
        before=detail["from_state"],
        after=detail["to_state"],
        reason=detail.get("reason", ""),
        brokers=() if replica is None else (replica,),
    )


def _of_leadership(event: TraceEvent, last: TraceEvent | None) -> StateChange:
    """last: the previous leadership, None where none is known."""
    is_first = last is None and event.detail.get("selector") == "initial"
    before, had = ("nobody" if is_first else "", ()) if last is None else _leadership(last)
    after, has = _leadership(event)
    return _line(
        event,
        Machine.PARTITIONS,
        About.LEADERSHIP,
        before=before,
        after=after,
        reason=_LEADERSHIPS[event.kind](event.detail),
        brokers=tuple(dict.fromkeys((*has, *had))),
    )


def _leadership(event: TraceEvent) -> tuple[str, tuple[int, ...]]:
    """Return the leadership in words, and the brokers that it names or removed."""
    detail = event.detail
    leader, isr = detail["leader"], detail["isr"]
    words = f"leader {leader}, ISR {_ids(isr)}, leader epoch {event.leader_epoch}"
    return words, (leader, *isr, *detail.get("elr", ()), *detail.get("lost", ()))


def _of_meeting(event: TraceEvent) -> StateChange:
    words, brokers = _MET[event.kind](event.detail)
    return _line(event, Machine.CONTROLLER, About.EVENT, after=words, brokers=tuple(brokers))


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers)) or "none"


def _elected(detail: Mapping[str, Any]) -> str:
    unclean = ", outside the ISR" if detail.get("unclean") else ""
    return f"{detail.get('selector', 'an')} election{unclean}"


def _renounced(detail: Mapping[str, Any]) -> str:
    lost = detail.get("lost", ())
    return f"{_ids(lost)} lost records" if lost else "the leader has restarted"


_LEADERSHIPS: Mapping[EventKind, Callable[[Mapping[str, Any]], str]] = {
    EventKind.LEADER_ELECTED: _elected,
    EventKind.ISR_WRITTEN: lambda detail: "",
    EventKind.REPLICAS_RENOUNCED: _renounced,
}
"""Changes of a partition's leader or ISR, with the reason in words."""

Met = tuple[str, Iterable[int]]


def _brokers_changed(detail: Mapping[str, Any]) -> Met:
    groups = [(name, detail[name]) for name in ("new", "dead", "bounced") if detail[name]]
    words = "; ".join(f"{name}: {_ids(brokers)}" for name, brokers in groups)
    return f"brokers {words}", [broker for _, brokers in groups for broker in brokers]


def _begun(detail: Mapping[str, Any]) -> Met:
    moving = f"{_ids(detail['adding'])} come, {_ids(detail['removing'])} go"
    return f"is to have replicas {_ids(detail['replicas'])}: {moving}", detail["replicas"]


def _completed(detail: Mapping[str, Any]) -> Met:
    replicas, removed = detail["replicas"], detail["removed"]
    words = f"has replicas {_ids(replicas)}, its reassignment is over"
    return words, (*replicas, *removed)


_MET: Mapping[EventKind, Callable[[Mapping[str, Any]], Met]] = {
    EventKind.CONTROLLER_ELECTED: lambda detail: ("is elected", ()),
    EventKind.CONTROLLER_RESIGNED: lambda detail: (f"resigns: {detail.get('reason', '')}", ()),
    EventKind.FAILOVER_COMPLETED: lambda detail: (
        f"has taken charge of brokers {_ids(detail['brokers'])}",
        (),
    ),
    EventKind.BROKERS_CHANGED: _brokers_changed,
    EventKind.LOG_FOLDERS_CHANGED: lambda detail: (
        f"log folders of brokers {_ids(detail['brokers'])} have changed",
        detail["brokers"],
    ),
    EventKind.REPLICAS_FAILED: lambda detail: (
        f"broker {detail['broker']}'s disk refuses {', '.join(detail['partitions'])}",
        (detail["broker"],),
    ),
    EventKind.BROKER_SUSPECTED: lambda detail: (
        f"broker {detail['broker']} seems to have died: {detail['why']}",
        (detail["broker"],),
    ),
    EventKind.SHUTDOWN_BEGUN: lambda detail: (
        f"broker {detail['broker']} is to stop",
        (detail["broker"],),
    ),
    EventKind.REASSIGNMENT_BEGUN: _begun,
    EventKind.REASSIGNMENT_COMPLETED: _completed,
    EventKind.TOPIC_DELETED: lambda detail: ("is deleted", ()),
    EventKind.DELETION_FAILED: lambda detail: (f"is not deleted: {detail.get('reason', '')}", ()),
}
"""A controller's events and decisions in words, with the brokers in them."""
