"""Triggers of the rows about commands that reached the wrong incarnation of a broker or topic.

Rows 15 (KIP-380), 16 (KIP-570), 24 (KIP-516).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from highwater_checker.catalogue.story import PartitionStory, Seen, ends_topic
from highwater_core.events import EventKind, TraceEvent

_STOP_REPLICA, _LEADER_AND_ISR = "StopReplica", "LeaderAndIsr"
_ROLES = (EventKind.BECAME_LEADER, EventKind.BECAME_FOLLOWER)
_ISR_WRITTEN = (EventKind.ISR_CHANGED, EventKind.ISR_WRITTEN, EventKind.LEADER_ELECTED)

Command = tuple[int, int | None, str, int]
"""Broker, controller epoch, request, and the request's correlation id on the channel."""


# ---------------------------------------------------------------- row 15


def restart_went_unnoticed(
    trace: Sequence[TraceEvent], topic: str, partition: int, offset: int
) -> str | None:
    """Row 15: no controller saw a broker's restart, or a command to its predecessor reached it.

    The command is a StopReplica; a LeaderAndIsr by which it leads with an ISR that is over; or a
    ControlledShutdown, after which the controller believes that the broker shuts down.
    """
    return (
        _unnoticed_restart(trace, topic, partition)
        or _obeyed_for_its_predecessor(trace, topic, partition)
        or _shut_down_for_its_predecessor(trace)
    )


def _unnoticed_restart(trace: Sequence[TraceEvent], topic: str, partition: int) -> str | None:
    """Return the evidence that a broker registered again and no controller noticed.

    A controller notices by its own failover, which commands all brokers, or when it handles the
    broker's failure or start.
    """
    registered: dict[int, tuple[int, TraceEvent]] = {}
    unnoticed: dict[int, TraceEvent] = {}
    for event in trace:
        if event.kind is EventKind.BROKER_REGISTERED:
            earlier = registered.get(event.node)
            registered[event.node] = (event.incarnation, event)
            if earlier is not None and earlier[0] != event.incarnation:
                unnoticed[event.node] = event
        elif event.kind is EventKind.BROKERS_CHANGED:
            for broker in (*event.detail["new"], *event.detail["dead"], *event.detail["bounced"]):
                unnoticed.pop(broker, None)
        elif event.kind is EventKind.CONTROLLER_ELECTED:
            unnoticed.clear()
        elif event.kind in _ROLES and (event.topic, event.partition) == (topic, partition):
            unnoticed.pop(event.node, None)
    for broker, event in unnoticed.items():
        return (
            f"broker {broker} registered anew as incarnation {event.incarnation} "
            f"(epoch {event.detail.get('broker_epoch')}), no controller saw it go or come, and it "
            f"was given no role since"
        )
    return None


def _obeyed_for_its_predecessor(
    trace: Sequence[TraceEvent], topic: str, partition: int
) -> str | None:
    """Return the evidence that a command sent before its start stopped a broker or had it lead."""
    sent: dict[Command, int] = {}
    started: dict[int, int] = {}
    acted: set[int] = set()
    found: dict[int, str] = {}
    isr: set[int] = set()
    for place, event in enumerate(trace):
        if event.kind is EventKind.NODE_STARTED:
            started[event.node] = place
            acted.discard(event.node)
        elif event.kind is EventKind.COMMAND_SENT:
            sent[_command(event.detail["broker"], event)] = place
        elif event.kind is EventKind.REQUEST_HANDLED:
            at = sent.get(command := _command(event.node, event))
            is_late = at is not None and at < started.get(event.node, -1)
            if event.node in acted and is_late:
                found[event.node] = (
                    f"broker {event.node}'s incarnation {event.incarnation} carried out "
                    f"{command[2]} {command[3]} of controller epoch {event.controller_epoch}, "
                    f"which was sent to an earlier one"
                )
            acted.discard(event.node)
        elif (event.topic, event.partition) == (topic, partition):
            if event.kind in _ROLES:
                found.pop(event.node, None)
            if event.kind in _ISR_WRITTEN:
                isr = set(event.detail["isr"])
            leads = event.kind is EventKind.BECAME_LEADER
            has_old_isr = leads and bool(isr) and isr != set(event.detail["isr"])
            if event.kind is EventKind.REPLICA_STOPPED or has_old_isr:
                acted.add(event.node)
    return next(iter(found.values()), None)


def _shut_down_for_its_predecessor(trace: Sequence[TraceEvent]) -> str | None:
    """Return the evidence that a ControlledShutdown of an older registration holds for a broker.

    The controller obeyed it before the broker registered anew, or after. Its effect, a StopReplica
    that may still be queued among others, ends when the controller handles the broker's failure or
    start, or another controller is elected.
    """
    registered: dict[int, int] = {}
    shut_down: dict[int, TraceEvent] = {}
    for event in trace:
        detail = event.detail
        if event.kind is EventKind.BROKER_REGISTERED:
            registered[event.node] = detail["broker_epoch"]
        elif event.kind is EventKind.SHUTDOWN_BEGUN:
            shut_down[detail["broker"]] = event
        elif event.kind is EventKind.BROKERS_CHANGED:
            for broker in (*detail["new"], *detail["dead"], *detail["bounced"]):
                shut_down.pop(broker, None)
        elif event.kind is EventKind.CONTROLLER_ELECTED:
            shut_down.clear()
    for broker, event in shut_down.items():
        of_registration = event.detail["broker_epoch"]
        if 0 <= of_registration < registered.get(broker, -1):
            return (
                f"controller {event.node} carried out a ControlledShutdown of broker {broker}, of "
                f"registration {of_registration}; it is registered as {registered[broker]}, and no "
                f"controller saw it go or come"
            )
    return None


def _command(broker: int, event: TraceEvent) -> Command:
    request = str(event.detail["request"]).removesuffix("Request")
    number = int(event.detail.get("correlation_id", -1))
    return broker, event.controller_epoch, request, number


# ---------------------------------------------------------------- row 16


def late_copy_stopped_a_replica(
    trace: Sequence[TraceEvent], topic: str, partition: int, offset: int
) -> str | None:
    """Row 16: a copy of a StopReplica came after the LeaderAndIsr that was sent after it."""
    story = PartitionStory(trace, topic, partition)
    places = {seen.place for seen in story.of(EventKind.REPLICA_STOPPED)}
    handled: dict[tuple[int, int], dict[Command, int]] = {}
    commanded: dict[int, int] = {}
    for place, event in enumerate(trace):
        if event.kind is not EventKind.REQUEST_HANDLED:
            continue
        command = _command(event.node, event)
        of_incarnation = handled.setdefault((event.node, event.incarnation), {})
        if event.detail["request"] == _LEADER_AND_ISR:
            commanded[event.node] = place
        elif event.detail["request"] == _STOP_REPLICA:
            first = of_incarnation.setdefault(command, place)
            since = commanded.get(event.node, -1)
            if first < since < place and _stopped_since(trace, event, since, place, places):
                return (
                    f"broker {event.node} carried out StopReplica {command[3]} of controller epoch "
                    f"{event.controller_epoch} a second time, after a later LeaderAndIsr"
                )
    return None


def _stopped_since(
    trace: Sequence[TraceEvent], event: TraceEvent, since: int, until: int, places: set[int]
) -> bool:
    return any(place in places and trace[place].node == event.node for place in range(since, until))


# ---------------------------------------------------------------- row 24


def old_log_taken_for_a_new_topic(
    trace: Sequence[TraceEvent], topic: str, partition: int, offset: int
) -> str | None:
    """Row 24: a replica's first role in a recreated topic finds records in its log."""
    since = _recreated(trace, topic)
    if since is None:
        return None
    for first in _first_roles(trace, topic, partition, since).values():
        if first.offset > 0:
            return (
                f"broker {first.node} took up the recreated topic, in epoch {first.epoch}, with a "
                f"log up to {first.offset} from before it was created"
            )
    return None


def _recreated(trace: Sequence[TraceEvent], topic: str) -> int | None:
    """Return the last place at which an earlier topic of that name is over."""
    since: int | None = None
    was_created = False
    for place, event in enumerate(trace):
        if ends_topic(event, topic):
            since = place
        elif event.kind is EventKind.TOPIC_CREATED and event.topic == topic:
            since = place if was_created else since
            was_created = True
    return since


def _first_roles(
    trace: Sequence[TraceEvent], topic: str, partition: int, since: int
) -> Mapping[int, Seen]:
    found: dict[int, Seen] = {}
    for seen in _roles(trace, topic, partition):
        if seen.place > since:
            found.setdefault(seen.node, seen)
    return found


def _roles(trace: Sequence[TraceEvent], topic: str, partition: int) -> Iterator[Seen]:
    for place, event in enumerate(trace):
        if event.kind in (EventKind.BECAME_LEADER, EventKind.BECAME_FOLLOWER) and (
            event.topic,
            event.partition,
        ) == (topic, partition):
            yield Seen(place, event)
