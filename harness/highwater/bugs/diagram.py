"""A story as a Mermaid sequence diagram, which GitHub draws."""

from __future__ import annotations

from collections.abc import Iterator

from highwater.bugs.story import CLIENTS, Story
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import NodeId, node_name
from highwater_simulator.display import ORACLE, PLAN
from highwater_simulator.trace_log import STARTED, Entry, Note

_SEMICOLON = "#59;"


def diagram(story: Story) -> Iterator[str]:
    """Yield the lines of the diagram: each node a column, elections and fetches as arrows."""
    steps = [step for entry in story.entries for step in _step(entry)]
    columns = {who for entry in story.entries for who in _nodes(entry) if any(_step(entry))}
    yield "sequenceDiagram"
    yield f"    participant {CLIENTS}"
    for who in sorted(columns):
        yield f"    participant {who}"
    yield from (f"    {step}" for step in steps)


def _nodes(entry: Entry) -> Iterator[str]:
    """Yield the nodes that the entry needs a column for."""
    if isinstance(entry.event, TraceEvent):
        yield entry.who
        leader = entry.event.detail.get("leader", -1)
        if leader >= 0:
            yield node_name(NodeId(leader))
    elif entry.who.startswith(("broker-", "controller-")):
        yield entry.who


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


def _note(who: str, note: Note) -> Iterator[str]:
    text = note.what.replace(";", _SEMICOLON)
    if who == ORACLE:
        yield f"Note over {CLIENTS}: {text}"
    elif who == CLIENTS:
        detail = ", ".join(f"{name} {value}" for name, value in note.detail.items())
        yield f"Note over {CLIENTS}: {text}: {detail}"
    elif who != PLAN and who.startswith(("broker-", "controller-")):
        yield f"Note over {who}: {_started(note) if text == STARTED else text}"


def _started(note: Note) -> str:
    return "started" if note.detail.get("incarnation") == 1 else "started again"
