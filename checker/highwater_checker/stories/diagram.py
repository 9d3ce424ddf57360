"""A story as a sequence diagram: its steps, and these in Mermaid, which GitHub draws."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from highwater_checker.stories.entries import (
    FAULTS_BEGIN,
    HEALED,
    JUDGE,
    ORACLE,
    PLAN,
    STARTED,
    Entry,
    Note,
)
from highwater_checker.stories.story import CLIENTS, Story
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import NodeId, node_name

FAULTS = "faults"
"""The column of the plan's steps."""
_TOLD_BY_STEPS = ("killed", "paused")
_SEMICOLON = "#59;"


@dataclass(frozen=True, slots=True)
class Step:
    """An arrow from `who` to `to`; with to "" a note over `who`. Units: at_ns is the run's time.

    is_verdict: it tells the violation.
    """

    at_ns: int
    who: str
    text: str
    to: str = ""
    is_verdict: bool = False


@dataclass(frozen=True, slots=True)
class Diagram:
    """The columns, from left to right, and the steps in order, each between or over columns."""

    columns: tuple[str, ...]
    steps: tuple[Step, ...]


def diagram_of(story: Story) -> Diagram:
    """Return the story's faults, elections, fetches, answers to clients, and the violation.

    The violation is in the last column, of the oracle or judge that found it.
    """
    entries = _without_repetitions(story.entries)
    steps = tuple(step for entry in entries for step in _step(entry))
    nodes = {who for entry in entries for who in _nodes(entry) if any(_step(entry))}
    judges = dict.fromkeys(step.who for step in steps if step.is_verdict)
    return Diagram((FAULTS, CLIENTS, *sorted(nodes), *judges), steps)


def mermaid(story: Story) -> Iterator[str]:
    """Yield the lines of the diagram."""
    drawn = diagram_of(story)
    yield "sequenceDiagram"
    for who in drawn.columns:
        yield f"    participant {who}"
    for step in drawn.steps:
        text = step.text.replace(";", _SEMICOLON)
        yield (
            f"    {step.who}->>{step.to}: {text}"
            if step.to
            else f"    Note over {step.who}: {text}"
        )


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


def _step(entry: Entry) -> Iterator[Step]:
    """Yield the entry's arrow or note; nothing for an entry that changes no leader, ISR or log."""
    event = entry.event
    if isinstance(event, Note):
        yield from _note(entry.at_ns, entry.who, event)
        return
    at = f"epoch {event.leader_epoch}"
    leader = event.detail.get("leader", -1)
    isr = event.detail.get("isr", "")
    to = ""
    match event.kind:
        case EventKind.LEADER_ELECTED:
            to, text = node_name(NodeId(leader)), f"elected in {at}, ISR {isr}"
        case EventKind.BECAME_LEADER:
            text = f"leads from {at}, log end {event.offset}"
        case EventKind.FETCHER_STARTED:
            to, text = node_name(NodeId(leader)), f"fetches from {event.offset} on, {at}"
        case EventKind.LOG_TRUNCATED:
            text = f"cuts its log from {event.detail.get('from_offset')} to {event.offset}"
        case EventKind.ISR_CHANGED | EventKind.ISR_WRITTEN:
            text = f"the ISR is {isr}"
        case EventKind.REPLICA_STOPPED:
            text = "stops its replica"
        case EventKind.SESSION_LOST:
            text = "lost its session"
        case EventKind.CONTROLLER_ELECTED:
            text = f"active from controller epoch {event.controller_epoch}"
        case EventKind.CONTROLLER_RESIGNED:
            text = "resigns"
        case EventKind.WRITE_CONFLICTED:
            text = "its write is refused"
        case _:
            return
    yield Step(entry.at_ns, entry.who, text, to)


def _note(at_ns: int, who: str, note: Note) -> Iterator[Step]:
    text = note.what
    if who in (ORACLE, JUDGE):
        yield Step(at_ns, who, text, is_verdict=True)
    elif who == CLIENTS:
        detail = ", ".join(f"{name} {value}" for name, value in note.detail.items())
        yield Step(at_ns, CLIENTS, f"{text}: {detail}")
    elif target := _target(who, note):
        yield Step(at_ns, FAULTS, text, target)
    elif who == PLAN and text not in (FAULTS_BEGIN, HEALED):
        yield Step(at_ns, FAULTS, text)
    elif who.startswith(("broker-", "controller-")):
        yield Step(at_ns, who, _started(note) if text == STARTED else text)


def _started(note: Note) -> str:
    return "started" if note.detail.get("incarnation") == 1 else "started again"
