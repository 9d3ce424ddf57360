"""The requests between nodes, and their answers, as the nodes' traces tell them. No I/O.

A trace has the controllers' commands on both sides, an AlterPartition by what its leader proposed
and adopted, and the fetches that a follower begins with; not the fetches that follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import TopicPartition

NO_ERROR = "NONE"
ALTER_PARTITION = "AlterPartition"
FETCH = "Fetch"
UPDATE_METADATA = "UpdateMetadata"
_SUFFIX = "Request"


@dataclass(frozen=True, slots=True)
class Message:
    """A request of a node to another.

    Units: nanoseconds by the nodes' clocks, as in their traces.
    partitions: those that it names; () of a request without any, or whose trace has none.
    handled_ns: when the receiver had done it; None if it did not trace that.
    answered_ns: when the sender knew the answer; None without one.
    error: the answer's, "" without one. detail: more of the request, in words.
    """

    sender: int
    receiver: int
    request: str
    partitions: tuple[TopicPartition, ...]
    sent_ns: int
    handled_ns: int | None = None
    answered_ns: int | None = None
    error: str = ""
    detail: str = ""

    @property
    def is_refused(self) -> bool:
        return self.error not in ("", NO_ERROR)


def messages_of(events: Iterable[TraceEvent]) -> list[Message]:
    """Return the messages of the nodes' traces, in the order in which they were sent.

    Nodes' clocks must be one, as on containers of one machine.
    """
    in_order = sorted(events, key=_place)
    found = [*_commands(in_order), *_isr_changes(in_order), *_fetches(in_order)]
    return sorted(found, key=lambda each: (each.sent_ns, each.sender, each.receiver))


def _place(event: TraceEvent) -> tuple[int, int, int, int]:
    return event.ts_ns, event.node, event.incarnation, event.seq


# ---------------------------------------------------------------- a controller's commands

_ENDS = (EventKind.COMMAND_ANSWERED, EventKind.COMMAND_DROPPED)
_AT_BROKER = (EventKind.REQUEST_HANDLED, EventKind.REQUEST_REFUSED)


def _commands(events: Sequence[TraceEvent]) -> Iterator[Message]:
    """Yield the commands; a controller sends a broker one at a time, and waits for its answer."""
    handled = _handled(events)
    sent: dict[tuple[int, int, int], TraceEvent] = {}
    for event in events:
        broker = _number(event.detail, "broker")
        if broker is None:
            continue
        key = event.node, event.incarnation, broker
        if event.kind is EventKind.COMMAND_SENT:
            if key in sent:  # it was still waiting when the controller lost its office
                yield _command(sent[key], None, handled)
            sent[key] = event
        elif event.kind in _ENDS and key in sent:
            yield _command(sent.pop(key), event, handled)
    for event in sent.values():
        yield _command(event, None, handled)


Handled = Mapping[tuple[Any, ...], TraceEvent]


def _handled(events: Sequence[TraceEvent]) -> Handled:
    """Return the first handling of each command, by what brings both sides together."""
    found: dict[tuple[Any, ...], TraceEvent] = {}
    for event in events:
        detail = event.detail
        if event.kind in _AT_BROKER and "correlation_id" in detail:
            numbers = _number(detail, "controller_id"), _number(detail, "correlation_id")
            found.setdefault((event.node, event.controller_epoch, *numbers), event)
    return found


def _command(sent: TraceEvent, answer: TraceEvent | None, handled: Handled) -> Message:
    detail = sent.detail
    broker = detail["broker"]
    named = detail.get("partitions")
    numbers = sent.node, _number(detail, "correlation_id")
    at_broker = handled.get((broker, sent.controller_epoch, *numbers))
    error = "" if answer is None else str(answer.detail.get("error", ""))
    if answer is not None and answer.kind is EventKind.COMMAND_DROPPED:
        error = f"dropped: {answer.detail.get('reason', '')}"
    return Message(
        sender=sent.node,
        receiver=broker,
        request=str(detail.get("request", "")).removesuffix(_SUFFIX),
        partitions=tuple(filter(None, map(_partition, named if isinstance(named, list) else ()))),
        sent_ns=sent.ts_ns,
        handled_ns=None if at_broker is None else at_broker.ts_ns,
        answered_ns=None if answer is None else answer.ts_ns,
        error=error,
        detail="of all replicas" if detail.get("is_init") else "",
    )


def _partition(name: object) -> TopicPartition | None:
    """Return the partition of its name, as "t-0"; None of another text."""
    try:
        return TopicPartition.named(str(name))
    except ValueError:
        return None


def _number(detail: Mapping[str, Any], name: str) -> int | None:
    """Return the number of that name; None where a trace has none."""
    found = detail.get(name)
    return found if isinstance(found, int) else None


# ---------------------------------------------------------------- ISR changes


def _isr_changes(events: Sequence[TraceEvent]) -> Iterator[Message]:
    """Yield the ISR changes that leaders asked a controller for.

    A leader that writes its ISR itself, as under `v3`, asks nobody. A change that no controller
    traced was lost, or was written by the leader: it is no message here.
    """
    asked: dict[tuple[int, TopicPartition], Message] = {}
    for event in events:
        at = event.topic_partition
        if at is None:
            continue
        if event.kind is EventKind.ISR_CHANGE_PROPOSED:
            if (earlier := asked.get((event.node, at))) is not None and earlier.receiver >= 0:
                yield earlier
            detail = f"ISR {event.detail.get('isr')}"
            asked[event.node, at] = Message(
                event.node, -1, ALTER_PARTITION, (at,), event.ts_ns, detail=detail
            )
        elif altered := _altered(event):
            leader, error = altered
            own = asked.get((leader, at))
            if own is not None and own.handled_ns is None:
                asked[leader, at] = replace(
                    own, receiver=event.node, handled_ns=event.ts_ns, error=error
                )
        elif _settles(event):
            own = asked.pop((event.node, at), None)
            if own is not None and own.handled_ns is not None:
                yield replace(own, answered_ns=event.ts_ns)
    yield from (own for own in asked.values() if own.handled_ns is not None)


def _altered(event: TraceEvent) -> tuple[int, str] | None:
    """Return who asked for the ISR change that a controller wrote or refused, and the answer."""
    detail = event.detail
    whole_name = f"{ALTER_PARTITION}{_SUFFIX}"
    leader, broker = _number(detail, "leader"), _number(detail, "broker")
    if event.kind is EventKind.ISR_WRITTEN and detail.get("trigger") == whole_name:
        return None if leader is None else (leader, NO_ERROR)
    if event.kind is EventKind.REQUEST_REFUSED and detail.get("request") == whole_name:
        return None if broker is None else (broker, str(detail.get("error", "")))
    return None


def _settles(event: TraceEvent) -> bool:
    is_refused = event.kind is EventKind.REQUEST_REFUSED
    return event.kind is EventKind.ISR_CHANGED or (
        is_refused and event.detail.get("request") == ALTER_PARTITION
    )


# ---------------------------------------------------------------- fetches


def _fetches(events: Sequence[TraceEvent]) -> list[Message]:
    """Return each fetcher's first fetch, with its refusal if it met one."""
    found: list[Message] = []
    newest: dict[tuple[int, TopicPartition], int] = {}
    for event in events:
        at = event.topic_partition
        if at is None:
            continue
        key = event.node, at
        leader = _number(event.detail, "leader")
        if event.kind is EventKind.FETCHER_STARTED and leader is not None and leader >= 0:
            newest[key] = len(found)
            detail = f"from {event.offset} on, epoch {event.leader_epoch}"
            found.append(Message(event.node, leader, FETCH, (at,), event.ts_ns, detail=detail))
        elif event.kind is EventKind.REQUEST_REFUSED and event.detail.get("request") == "fetch":
            number = newest.get(key)
            if number is None or found[number].receiver != event.detail.get("by"):
                continue
            if not found[number].error:
                error = str(event.detail.get("error", ""))
                found[number] = replace(found[number], answered_ns=event.ts_ns, error=error)
    return found
