"""I14, from traces: a broker has the groups of an offsets partition exactly while it leads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from highwater_checker.finding import CheckResult, Finding, Traced
from highwater_checker.wording import Wording
from highwater_core.events import EventKind, TraceEvent
from highwater_core.internal_topics import OFFSETS_TOPIC

CHECK = "groups with their leaders (I14)"


def has_coordinators(events: Sequence[TraceEvent]) -> bool:
    """Return whether any broker ever coordinated groups."""
    return any(event.kind is EventKind.GROUP_LOAD_BEGUN for event in events)


class _Replica:
    """An offsets partition on one broker, from one start of the broker to the next."""

    def __init__(self) -> None:
        self._leads = False
        self._is_closed = False
        """Whether it leads, and serves no client before its next ISR is written."""
        self._begun: TraceEvent | None = None
        """The begin of the load of the current term; None without a term."""
        self._is_loaded = False
        self._due: tuple[EventKind, Wording, TraceEvent] | None = None
        """The kind that the next event must have, and the finding if it has another."""

    def take(self, event: TraceEvent) -> Iterator[tuple[Wording, TraceEvent]]:
        """Yield the findings of the next event, each with the event that shows it."""
        if event.kind is EventKind.HIGH_WATERMARK_ADVANCED:
            return
        if self._due is not None and self._due[0] is not event.kind:
            yield self._due[1], self._due[2]
        self._due = None
        match event.kind:
            case EventKind.BECAME_LEADER if not event.detail.get("is_open", True):
                self._leads, self._is_closed = False, True
                if self._begun is not None:
                    self._due = EventKind.GROUP_UNLOADED, Wording.KEEPS_GROUPS, event
            case EventKind.ISR_CHANGED if not self._is_closed:
                pass
            case EventKind.BECAME_LEADER | EventKind.ISR_CHANGED:
                self._leads, self._is_closed = True, False
                if self._begun is None:
                    self._due = EventKind.GROUP_LOAD_BEGUN, Wording.LEADS_WITHOUT_GROUPS, event
            case EventKind.BECAME_FOLLOWER:
                self._leads = self._is_closed = False
                if self._begun is not None:
                    self._due = EventKind.GROUP_UNLOADED, Wording.KEEPS_GROUPS, event
            case EventKind.REPLICA_STOPPED:
                self._leads = self._is_closed = False
                if self._begun is not None:
                    yield Wording.KEEPS_GROUPS, event
            case EventKind.GROUP_LOAD_BEGUN:
                if not self._leads:
                    yield Wording.LOADED_WITHOUT_LEADING, event
                self._begun, self._is_loaded = event, False
            case EventKind.GROUP_LOAD_ENDED:
                yield from self._ended(event)
            case EventKind.GROUP_UNLOADED:
                if self._leads:
                    self._due = EventKind.REPLICA_STOPPED, Wording.LEADS_WITHOUT_GROUPS, event
                self._begun, self._is_loaded = None, False
            case _:
                pass

    def _ended(self, event: TraceEvent) -> Iterator[tuple[Wording, TraceEvent]]:
        if self._begun is None or self._is_loaded:
            yield Wording.LOADED_WITHOUT_LEADING, event
            return
        self._is_loaded = True
        if event.detail["read_up_to"] < self._begun.detail["epoch_start_offset"]:
            yield Wording.LOAD_STOPPED_EARLY, event


def check_coordinators(events: Sequence[TraceEvent]) -> CheckResult:
    """Find groups without a leadership, leaderships without groups, and loads that stopped early.

    events: those of one start of a node are in their order.
    Source: docs/reference/invariants.md, I14; KAFKA-2841, KAFKA-10614.
    """
    replicas: dict[tuple[int, int, int], _Replica] = {}
    findings: list[Finding] = []
    examined = 0
    for event in events:
        if event.topic != OFFSETS_TOPIC or event.partition is None:
            continue
        examined += event.kind is EventKind.GROUP_LOAD_ENDED
        key = event.node, event.incarnation, event.partition
        for wording, shown in replicas.setdefault(key, _Replica()).take(event):
            findings.append(_finding(wording, shown))
    return CheckResult(CHECK, examined, tuple(findings))


def _finding(wording: Wording, event: TraceEvent) -> Finding:
    message = wording.filled(
        broker=event.node,
        leader_epoch=event.leader_epoch,
        end_offset=event.detail.get("read_up_to", -1),
    )
    return Finding(
        "I14",
        message,
        OFFSETS_TOPIC,
        event.partition or 0,
        broker=event.node,
        traced=(Traced.of(event),),
    )
