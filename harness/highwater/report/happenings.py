"""A finished run as entries in the order of time: faults, events of nodes, answers to clients."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from highwater.report.faults_in_run import fault_in, intents_in
from highwater_chaos import faults as f
from highwater_checker.finding import Finding
from highwater_checker.history import POLL, SEND, HistoryEvent, OperationType
from highwater_checker.run_folder.evidence import Evidence
from highwater_checker.run_folder.intents import Intent, Phase
from highwater_checker.stories.entries import PLAN, STARTED, Entry, Note
from highwater_checker.stories.story import CLIENTS
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import NodeId, TopicPartition, node_name

_SAID = {
    Phase.INTENDED: "begun",
    Phase.ACTING: "acts",
    Phase.NOT_DONE: "not done",
    Phase.REVERTING: "being undone",
    Phase.REVERTED: "undone",
    Phase.NOT_REVERTED: "not undone",
}
"""Phases of a fault that a story tells."""
_ANY_PARTITION = -1
"""Of a send that failed before its client had chosen a partition."""
_ENDS_ITS_NODE = (f.Kill, f.PowerLoss)


def entries_of_run(
    folder: Path,
    start_wall_ns: int | None,
    evidence: Evidence,
    at: TopicPartition | None,
    findings: Collection[Finding],
) -> list[Entry]:
    """Return the run's entries, in the order of time.

    start_wall_ns: the run's start by the nodes' clock, None where it is not known. at: the
    partition whose sends are entries, None for none. findings: the operations that they name are
    told with their values; of a poll, which read many, the findings' records.

    Nodes' clocks must be one, as on containers of one machine. Without `clock.json` the time of
    nodes is that since the first event, and clients' entries and faults are left out.
    Ordering: of one instant a fault comes first, but for one that ends its node: what that node did
    in the instant was before.
    """
    start_ns = start_wall_ns
    if start_ns is None:
        start_ns = min((event.ts_ns for event in evidence.traces), default=0)
    happened = [_of_node(event, start_ns) for event in evidence.traces]
    first: list[Entry] = []
    last: list[Entry] = []
    if start_wall_ns is not None:
        happened += _of_clients(evidence, at, findings)
        for ends_its_node, entry in _of_faults(intents_in(folder)):
            (last if ends_its_node else first).append(entry)
    return sorted([*first, *happened, *last], key=lambda entry: entry.at_ns)


def _of_node(event: TraceEvent, start_ns: int) -> Entry:
    who = node_name(NodeId(event.node))
    at_ns = event.ts_ns - start_ns
    if event.kind is EventKind.NODE_STARTED:
        return Entry(at_ns, who, Note(who, STARTED, {"incarnation": event.incarnation}))
    return Entry(at_ns, who, event)


# ---------------------------------------------------------------- clients


def _of_clients(
    evidence: Evidence, at: TopicPartition | None, findings: Collection[Finding]
) -> Iterator[Entry]:
    operations = {each.operation for each in findings}
    records = {(each.topic, each.partition, each.offset) for each in findings}
    for history in evidence.histories.values():
        for event in history:
            if event.operation in operations:
                place = event.topic, event.partition, event.offset
                if event.function != POLL or place in records:
                    yield _of_operation(event)
            elif at is not None and _is_outcome_of_send(event, at):
                note = Note(CLIENTS, f"{SEND} {event.type}", {"offset": event.offset})
                yield Entry(event.time_ns, CLIENTS, note)


def _is_outcome_of_send(event: HistoryEvent, at: TopicPartition) -> bool:
    if event.function != SEND or event.type is OperationType.INVOKE:
        return False
    return event.topic == at.topic and event.partition in (at.partition, _ANY_PARTITION)


def _of_operation(event: HistoryEvent) -> Entry:
    detail: dict[str, object] = {"value": event.value}
    if event.offset >= 0:
        detail["offset"] = event.offset
    if event.error:
        detail["error"] = event.error
    return Entry(event.time_ns, CLIENTS, Note(CLIENTS, f"{event.operation}: {event.type}", detail))


# ---------------------------------------------------------------- faults


def _of_faults(intents: Sequence[Intent[Any]]) -> Iterator[tuple[bool, Entry]]:
    """Yield whether the fault ends its node, and each phase that a story tells.

    A fault acts from its acted_ns on. Earlier versions did not write that: it was between the
    intention and the proof, and both are told. It is gone at some moment while it is being undone.
    """
    begun = {each.number: each for each in intents if each.phase is Phase.INTENDED}
    known = {each.number for each in intents if each.acted_ns is not None}
    reverted = {each.number: each.at_ns for each in intents if each.phase is Phase.REVERTED}
    for each in intents:
        said, first = _SAID.get(each.phase), begun.get(each.number)
        if said is None or first is None or first.fault is None:
            continue
        if each.phase is Phase.INTENDED and each.number in known:
            continue
        if each.phase is Phase.REVERTING and reverted.get(each.number) == each.at_ns:
            continue
        fault, text = fault_in(first.fault)
        detail: dict[str, object] = {} if each.node is None else {"on": each.node}
        if each.why:
            detail["why"] = each.why
        at_ns = each.at_ns if each.acted_ns is None else each.acted_ns
        yield (
            isinstance(fault, _ENDS_ITS_NODE) and each.phase is Phase.ACTING,
            Entry(at_ns, PLAN, Note(PLAN, f"{said}: {text}", detail)),
        )
