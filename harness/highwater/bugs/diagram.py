"""A story as a Mermaid sequence diagram, which GitHub draws."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from highwater.bugs.story import CLIENTS, Story
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import NodeId, node_name
from highwater_simulator.display import ORACLE, PLAN
from highwater_simulator.trace_log import FAULTS_BEGIN, HEALED, STARTED, Entry, Note

FAULTS = "faults"
"""The column of the plan's steps."""
_TOLD_BY_STEPS = ("killed", "paused")
_SEMICOLON = "#59;"


def diagram(story: Story) -> Iterator[str]:
    """Yield the lines of the diagram: a column a node; faults, elections, fetches as arrows."""
    entries = _without_repetitions(story.entries)
    steps = [step for entry in entries for step in _step(entry)]
    columns = {who for entry in entries for who in _nodes(entry) if any(_step(entry))}
    yield "sequenceDiagram"
    yield f"    participant {FAULTS}"
    yield f"    participant {CLIENTS}"
    for who in sorted(columns):
        yield f"    participant {who}"
    yield from (f"    {step}" for step in steps)


def _without_repetitions(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries without the deaths and pauses that a step of the plan tells as well."""
    told = {(entry.at_ns, _target(entry.who, entry.event)) for entry in entries}
    return [
        entry
        for entry in entries
        if not isinstance(entry.event, Note)
        or entry.event.what not in _TOLD_BY_STEPS
        or (entry.at_ns, entry.who) not in told
    ]


def _target(who: str, event: TraceEvent | Note) -> str:
    """Return the node that a step of the plan hits, "" for steps without one and for all else."""
    is_step = who == PLAN and "on" in event.detail
    return node_name(NodeId(event.detail["on"])) if is_step else ""


def _nodes(entry: Entry) -> Iterator[str]:
    """Yield the nodes that the entry needs a column for."""
    if isinstance(entry.event, TraceEvent):
        yield entry.who
        leader = entry.event.detail.get("leader", -1)
        if leader >= 0:
            yield node_name(NodeId(leader))
    elif entry.who.startswith(("broker-", "controller-")):
        yield entry.who
    elif target := _target(entry.who, entry.event):
        yield target


def _step(entry: Entry) -> Iterator[str]:
    """Yield the entry's arrow or note; nothing for an entry that changes no leader, ISR or log."""
    event = entry.event
    if isinstance(event, Note):
        yield from _note(entry.who, event)
        return
    who, at = entry.who, f"epoch {event.leader_epoch}"
    leader = event.detail.get("leader", -1)
    isr = event.detail.get("isr", "")
    match event.kind:
        case EventKind.LEADER_ELECTED:
            yield f"{who}->>{node_name(NodeId(leader))}: elected in {at}, ISR {isr}"
        case EventKind.BECAME_LEADER:
            yield f"Note over {who}: leads from {at}, log end {event.offset}"
        case EventKind.FETCHER_STARTED:
            yield f"{who}->>{node_name(NodeId(leader))}: fetches from {event.offset} on, {at}"
        case EventKind.LOG_TRUNCATED:
            begin = event.detail.get("from_offset")
            yield f"Note over {who}: cuts its log from {begin} to {event.offset}"
        case EventKind.ISR_CHANGED | EventKind.ISR_WRITTEN:
            yield f"Note over {who}: the ISR is {isr}"
        case EventKind.REPLICA_STOPPED:
            yield f"Note over {who}: stops its replica"
        case EventKind.SESSION_LOST:
            yield f"Note over {who}: lost its session"
        case EventKind.CONTROLLER_ELECTED:
            yield f"Note over {who}: active from controller epoch {event.controller_epoch}"
        case EventKind.CONTROLLER_RESIGNED:
            yield f"Note over {who}: resigns"
        case EventKind.WRITE_CONFLICTED:
            yield f"Note over {who}: its write is refused"


def _note(who: str, note: Note) -> Iterator[str]:
    text = note.what.replace(";", _SEMICOLON)
    if who == ORACLE:
        yield f"Note over {CLIENTS}: {text}"
    elif who == CLIENTS:
        detail = ", ".join(f"{name} {value}" for name, value in note.detail.items())
        yield f"Note over {CLIENTS}: {text}: {detail}"
    elif target := _target(who, note):
        yield f"{FAULTS}->>{target}: {text}"
    elif who == PLAN and note.what not in (FAULTS_BEGIN, HEALED):
        yield f"Note over {FAULTS}: {text}"
    elif who.startswith(("broker-", "controller-")):
        yield f"Note over {who}: {_started(note) if text == STARTED else text}"


def _started(note: Note) -> str:
    return "started" if note.detail.get("incarnation") == 1 else "started again"
