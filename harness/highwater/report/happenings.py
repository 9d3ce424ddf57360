"""A finished run as entries in the order of time: faults, events of nodes, answers to clients."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import msgspec

from highwater_chaos.faults import Fault
from highwater_chaos.words import say_fault
from highwater_checker.finding import Finding
from highwater_checker.history import POLL, SEND, HistoryEvent, OperationType
from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import CLOCK, BadDocument, RunStart
from highwater_checker.run_folder.evidence import Evidence
from highwater_checker.run_folder.intents import Intent, Phase, read_intents
from highwater_checker.stories.entries import PLAN, STARTED, Entry, Note
from highwater_checker.stories.story import CLIENTS
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import NodeId, TopicPartition, node_name

_SAID = {
    Phase.INTENDED: "begun",
    Phase.ACTING: "acts",
    Phase.NOT_DONE: "not done",
    Phase.REVERTED: "undone",
    Phase.NOT_REVERTED: "not undone",
}
"""Phases of a fault that a story tells. A fault acts from some moment after it was begun."""


def entries_of_run(
    folder: Path, evidence: Evidence, at: TopicPartition | None, findings: Collection[Finding]
) -> list[Entry]:
    """Return the run's entries, in the order of time.

    at: the partition whose sends are entries, None for none. findings: the operations that they
    name are told with their values; of a poll, which read many, the findings' records.

    Nodes' clocks must be one, as on containers of one machine. Without `clock.json` the time of
    nodes is that since the first event, and clients' entries are left out.
    """
    clock = _clock_of(folder)
    start_ns = None if clock is None else clock.start_wall_ns
    if start_ns is None:
        start_ns = _first_ns(evidence.traces)
    entries = [_of_node(event, start_ns) for event in evidence.traces]
    if clock is not None:
        entries += _of_clients(evidence, at, findings)
        entries += _of_faults(_intents_in(folder))
    return sorted(entries, key=lambda entry: entry.at_ns)


def _clock_of(folder: Path) -> RunStart | None:
    try:
        return CLOCK.read(folder)
    except BadDocument:
        return None


def _first_ns(traces: Sequence[TraceEvent]) -> int:
    return min((event.ts_ns for event in traces), default=0)


def _of_node(event: TraceEvent, start_ns: int) -> Entry:
    who = node_name(NodeId(event.node))
    at_ns = event.ts_ns - start_ns
    if event.kind is EventKind.NODE_STARTED:
        return Entry(at_ns, who, Note(who, STARTED, {"incarnation": event.incarnation}))
    return Entry(at_ns, who, event)


def _of_clients(
    evidence: Evidence, at: TopicPartition | None, findings: Collection[Finding]
) -> Iterator[Entry]:
    operations = {each.operation for each in findings}
    offsets = {each.offset for each in findings}
    for history in evidence.histories.values():
        for event in history:
            if event.operation in operations:
                if event.function != POLL or event.offset in offsets:
                    yield _of_operation(event)
            elif (event.topic, event.partition) == at and _is_outcome_of_send(event):
                note = Note(CLIENTS, f"{SEND} {event.type}", {"offset": event.offset})
                yield Entry(event.time_ns, CLIENTS, note)


def _is_outcome_of_send(event: HistoryEvent) -> bool:
    return event.function == SEND and event.type is not OperationType.INVOKE


def _of_operation(event: HistoryEvent) -> Entry:
    detail: dict[str, object] = {"value": event.value}
    if event.offset >= 0:
        detail["offset"] = event.offset
    if event.error:
        detail["error"] = event.error
    return Entry(event.time_ns, CLIENTS, Note(CLIENTS, f"{event.operation}: {event.type}", detail))


def _intents_in(folder: Path) -> list[Intent[Fault]]:
    """Return the run's faults; none of an unreadable file, which the verdict tells of."""
    try:
        return read_intents(folder / names.INTENTS, Fault)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return []


def _of_faults(intents: Sequence[Intent[Fault]]) -> Iterator[Entry]:
    """Yield each phase; in virtual time a fault acts in the instant in which it is begun."""
    begun = {each.number: each for each in intents if each.phase is Phase.INTENDED}
    instant = {
        each.number
        for each in intents
        if each.phase is Phase.ACTING and each.number in begun
        if each.at_ns == begun[each.number].at_ns
    }
    for each in intents:
        said = _SAID.get(each.phase)
        if said is None or each.number not in begun:
            continue
        fault = begun[each.number].fault
        if fault is None or (each.phase is Phase.INTENDED and each.number in instant):
            continue
        detail: dict[str, object] = {} if each.node is None else {"on": each.node}
        if each.why:
            detail["why"] = each.why
        yield Entry(each.at_ns, PLAN, Note(PLAN, f"{said}: {say_fault(fault)}", detail))
