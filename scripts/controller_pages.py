"""The pages about the controller: its state machines drawn, and every event that it handles."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, get_args

from highwater_controller import controller, controller_events, waiting_jobs
from highwater_controller.controller import Controller
from highwater_controller.controller_events import (
    ControllerEvent,
    ControllerZnodeChanged,
    JobsDue,
    RequestReceived,
)
from highwater_controller.failover import fail_over
from highwater_controller.logic import partition_states, replica_states
from highwater_controller.logic.partition_states import PartitionEffect, PartitionState
from highwater_controller.logic.replica_states import ReplicaEffect, ReplicaState
from highwater_controller.waiting_jobs import WaitingJobs
from highwater_core.messages import ControllerCommand
from scripts.markdown_pages import documented, one_line, page, table

# ---------------------------------------------------------------- state machines


def state_machines_page() -> str:
    return page(
        "The controller's state machines",
        "Drawn from the tables in `controller/highwater_controller/logic/`. The active controller "
        "holds\nthese states in memory, for one term of office; each change is traced "
        "(`partition_state_changed`,\n`replica_state_changed`). A change that is not drawn is "
        "refused for its partition or replica alone,\nand traced as `transition_refused`. "
        "[controller-events.md](controller-events.md) says which event\nmakes which changes.",
        *_machine("Partitions", PartitionState, PartitionEffect, partition_states.EFFECTS),
        *_sources(partition_states.__doc__),
        *_machine("Replicas", ReplicaState, ReplicaEffect, replica_states.EFFECTS),
        *_sources(replica_states.__doc__),
    )


def _machine(
    title: str,
    states: type[StrEnum],
    effects: type[StrEnum],
    moves: Mapping[tuple[StrEnum, StrEnum], StrEnum],
) -> Iterator[str]:
    arrows = [
        f"    {previous} --> {target}: {moves[previous, target]}" for previous, target in moves
    ]
    yield f"## {title}"
    yield "\n".join(("```mermaid", "stateDiagram-v2", *arrows, "```"))
    about_states = documented(states)
    rows = [
        (
            f"`{target}`",
            ", ".join(f"`{previous}`" for previous, reached in moves if reached is target),
            about_states.get(target.name, ""),
        )
        for target in states
    ]
    yield table(("to", "from", "the state means"), rows)
    about_effects = documented(effects)
    what = [(f"`{effect}`", about_effects[effect.name]) for effect in effects]
    yield table(("a change's effect", "besides the new state in memory"), what)


# ---------------------------------------------------------------- events


@dataclass(frozen=True, slots=True)
class Handler:
    """The handler of an event or a request: a function, a method, or a class with a step."""

    name: str
    code: Any

    @property
    def documentation(self) -> Documentation:
        return Documentation.of(self.code)


@dataclass(frozen=True, slots=True)
class Documentation:
    """A docstring's parts. source: of the code itself, else of its module."""

    summary: str
    steps: tuple[str, ...]
    source: str

    @classmethod
    def of(cls, code: Any) -> Documentation:
        text = inspect.getdoc(code) or ""
        module = inspect.getmodule(code)
        source = _part("Source", text) or _part("Source", (module and module.__doc__) or "")
        steps = tuple(
            step.strip().rstrip(".") for step in _part("Ordering", text).split("->") if step.strip()
        )
        return cls(one_line(text.split("\n\n")[0]), steps, source)


_PART = re.compile(
    r"(?:^|(?<=\. ))(Ordering|Source|Deviation|Raises|Invariant|Units): ?", re.MULTILINE
)


def _part(name: str, text: str) -> str:
    """Return the text after `name:` in a docstring, up to its next part."""
    pieces = _PART.split(text)
    parts = dict(zip(pieces[1::2], pieces[2::2], strict=True))
    return one_line(parts.get(name, "").split("\n\n")[0])


def _sources(text: str | None) -> list[str]:
    return [f"Source: {_part('Source', text or '')}"]


def controller_events_page() -> str:
    events = event_handlers()
    requests = request_handlers()
    return page(
        "What the controller does, event by event",
        "The active controller has one queue and handles one event at a time. Watches, requests, "
        "answers\nof brokers and timers only put events into it; ZooKeeper is read when an event's "
        "turn comes\n(KAFKA-5642). An event of an earlier term of office does nothing. "
        "[state-machines.md](state-machines.md)\ndraws the states that are named here; "
        "[replication.md](../explanation/replication.md#the-controller)\nsays why the steps come "
        "in this order.",
        table(
            ("event", "what puts it into the queue", "watched"),
            (
                (
                    f"[{event.__name__}](#{_section_of(event)})",
                    _summary(event),
                    ", ".join(f"`{path}`" for path in _watched(event)),
                )
                for event in events
            ),
        ),
        *(
            _event_section(event, handler)
            for event, handler in events.items()
            if event not in _OF_REQUESTS
        ),
        "## Taking charge",
        "What the winner of an election does, before any other event.",
        _handled(Handler("failover.fail_over", fail_over)),
        "## Requests",
        "What brokers ask for themselves is handled in one go, when the request's turn comes "
        "(RequestReceived).\nWhat they forward for clients is worked on in steps, one for each "
        "JobsDue, so that\nwhatever else happens is handled in between. "
        "[replication.md](../explanation/replication.md#moving-replicas)\nhas the steps of a "
        "reassignment, and why they come in this order.",
        table(
            ("request", "handled by", "what is done", "source"),
            (
                (
                    f"`{request.__name__}`",
                    f"`{handler.name}`",
                    _request_text(handler),
                    handler.documentation.source,
                )
                for request, handler in requests.items()
            ),
        ),
        "## What ends a term",
        "A lost session, an operation of ZooKeeper that fails, and `/controller` in another's "
        "hands end the\nterm at once, in the middle of whatever is done: what waits is answered "
        "with NOT_CONTROLLER, what\nwas begun with REQUEST_TIMED_OUT, and the next controller "
        "starts from what ZooKeeper holds\n(KAFKA-2300).",
    )


def event_handlers() -> dict[type, Handler]:
    """Return the handler of each event, in the order of their definition: by Controller._handle."""
    calls = {
        ControllerZnodeChanged.__name__: "self._look_who_leads",
        **_first_calls(Controller._handle),
    }
    return {event: _resolve(calls[event.__name__]) for event in get_args(ControllerEvent)}


def request_handlers() -> dict[type, Handler]:
    """Return the handler of each request of brokers, first of those that are handled in steps."""
    found = {
        request: Handler(f"{_module(work)}.{work.__name__}", work)
        for request, work in waiting_jobs._WORKS.items()
    }
    calls = _first_calls(Controller._answer)
    of_brokers = {request.__name__: request for request in get_args(ControllerCommand)}
    at_once = {of_brokers[name]: _resolve(call) for name, call in calls.items()}
    return found | at_once


def _first_calls(method: Any) -> dict[str, str]:
    """Return the function that each case of a method's match statement awaits, or calls, first.

    Calls that only wrap another call (_CARRIERS) are left out: the inner call counts.
    """
    body = ast.parse(textwrap.dedent(inspect.getsource(method)))
    calls = {}
    for case in (node for node in ast.walk(body) if isinstance(node, ast.match_case)):
        if isinstance(case.pattern, ast.MatchClass):
            names = [
                ast.unparse(node.func)
                for statement in case.body
                for node in ast.walk(statement)
                if isinstance(node, ast.Call) and ast.unparse(node.func) not in _CARRIERS
            ]
            calls[ast.unparse(case.pattern.cls)] = names[0]
    return calls


_CARRIERS = ("received.reply.set", "self._take_written")
"""Calls that wrap an answer, and a job that is done in steps."""


def _resolve(call: str) -> Handler:
    """Return the function of that name as controller.py imports it, or its own method."""
    if call == "self._jobs.step":
        return Handler("waiting_jobs.WaitingJobs", WaitingJobs.step)
    if call.startswith("self."):
        return Handler("controller.Controller", getattr(Controller, call.removeprefix("self.")))
    code = getattr(controller, call)
    return Handler(f"{_module(code)}.{call}", getattr(code, "step", code))


def _module(code: Any) -> str:
    return str(code.__module__).removeprefix("highwater_controller.")


def _watched(event: type) -> list[str]:
    return [path for path, each in controller_events._BY_PATH.items() if isinstance(each, event)]


_OF_REQUESTS = (JobsDue, RequestReceived)


def _section_of(event: type) -> str:
    return "requests" if event in _OF_REQUESTS else event.__name__.lower()


def _summary(event: type) -> str:
    return Documentation.of(event).summary


def _event_section(event: type, handler: Handler) -> str:
    return f"## {event.__name__}\n\n{_summary(event)}\n\n{_handled(handler)}"


def _handled(handler: Handler) -> str:
    about = handler.documentation
    steps = "\n".join(f"{number}. {step}" for number, step in enumerate(about.steps, 1))
    source = f"Source: {about.source}"
    if not about.steps or not about.source:
        raise SystemExit(f"{handler.name}: its docstring says no Ordering, or no Source")
    return "\n\n".join((f"`{handler.name}`: {about.summary}", steps, source))


def _request_text(handler: Handler) -> str:
    step = getattr(handler.code, "step", None)
    text = Documentation.of(step or handler.code).summary
    if not text or not handler.documentation.source:
        raise SystemExit(f"{handler.name}: its docstring says nothing, or no Source")
    return text
