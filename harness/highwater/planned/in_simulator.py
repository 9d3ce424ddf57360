"""Runs a plan in the simulator, and leaves a run folder as a run on containers does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from highwater.errors import HarnessError
from highwater.evidence import Evidence, read_sends
from highwater.observation import Look
from highwater.picture import Fault
from highwater.planned.outcome import PlanResult, write_plan
from highwater.report import write_report
from highwater.run_folder import RunFolder
from highwater.screen import Screen
from highwater_chaos.plan import Plan, Step
from highwater_chaos.words import say_step
from highwater_checker.finding import CheckResult, Finding
from highwater_checker.history import HistoryEvent, encode
from highwater_checker.verdict import Requirement, Verdict, judge
from highwater_core.events import TraceEvent
from highwater_core.traces import encode_event
from highwater_simulator.display import display
from highwater_simulator.planted import PLANTED
from highwater_simulator.runner import RunResult, run_plan
from highwater_simulator.search import bug_or_none
from highwater_simulator.trace_log import Note

_NS_PER_S = 1e9


def run_in_simulator(plan: Plan, folder: RunFolder, screen: Screen) -> PlanResult:
    """Run the plan, with the planted bug that it expects, and return its verdict.

    Raises:
        HarnessError: there is no planted bug of that name.
    """
    bug = "" if plan.expected is None else plan.expected.planted
    if bug and bug not in PLANTED:
        raise HarnessError(f"there is no planted bug {bug!r}")
    write_plan(folder, plan)
    notes = (f"every node has the planted bug {bug}",) if bug else ()
    with bug_or_none(bug):
        result = run_plan(plan)
    marks = list(_marks(result))
    for mark in marks:
        screen.say(mark.text, time_s=mark.time_s, style="bold")
    _write_evidence(folder, result)
    verdict = verdict_of(result)
    folder.write_json("verdict.json", verdict)
    evidence = Evidence(
        sends=read_sends(folder.path / "history"),
        traces=tuple(result.trace.events()),
        final_look=Look(result.simulated_ns, {}),
        replicas={},
    )
    write_report(folder, verdict, (), marks, evidence)
    steps = tuple(_said_of_steps(result))
    return PlanResult(folder.path, verdict, notes, steps)


def verdict_of(result: RunResult) -> Verdict:
    """Return FAIL with a violation; UNKNOWN when a step was not done or nothing acknowledged."""
    violation = result.violation
    findings: tuple[Finding, ...] = ()
    if violation is not None:
        findings = (
            Finding(
                violation.invariant,
                violation.message,
                violation.topic,
                violation.partition,
                violation.offset,
            ),
        )
    check = CheckResult("invariants after every event, and the end", result.events, findings)
    acknowledged = result.acknowledged
    return judge(
        [check],
        [
            Requirement("records were acknowledged", acknowledged > 0, str(acknowledged)),
            *(
                Requirement(f"done: {say_step(step)}", has_fired, why)
                for step, has_fired, why in _steps(result)
            ),
        ],
    )


def _steps(result: RunResult) -> Iterator[tuple[Step, bool, str]]:
    for step in result.outcome.fired:
        yield step, True, "done"
    for step in result.outcome.missed:
        yield step, False, "missed: there was nobody to do it to"
    for step in result.outcome.not_reached:
        yield step, False, "missed: its condition never held"


def _said_of_steps(result: RunResult) -> Iterator[str]:
    for step, _, why in _steps(result):
        yield f"{say_step(step)}: {why}"


def _marks(result: RunResult) -> Iterator[Fault]:
    """Yield what was done to the cluster and what broke."""
    for entry in result.trace.entries:
        if isinstance(entry.event, Note) and entry.who in ("plan", "oracle"):
            yield Fault(entry.at_ns / _NS_PER_S, entry.event.what)


def _write_evidence(folder: RunFolder, result: RunResult) -> None:
    """Write each client's history, each node's trace, and the one trace as it is read."""
    by_process: dict[str, list[HistoryEvent]] = {}
    for event in result.history:
        by_process.setdefault(event.process, []).append(event)
    for process, events in by_process.items():
        _write_lines(folder, f"history/{process}.jsonl", [encode(event) for event in events])
    by_incarnation: dict[str, list[bytes]] = {}
    for entry in result.trace.entries:
        if isinstance(entry.event, TraceEvent):
            name = f"{entry.who}-{entry.event.incarnation}"
            by_incarnation.setdefault(name, []).append(encode_event(entry.event))
    for name, lines in by_incarnation.items():
        _write_lines(folder, f"trace/{name}.jsonl", lines)
    _write_lines(folder, "trace.txt", [line.encode() for line in display(result.trace.entries)])
    folder.write_json("topology.json", msgspec.to_builtins(result.plan.topology))


def _write_lines(folder: RunFolder, name: str, lines: Sequence[bytes]) -> None:
    folder.write_bytes(name, b"".join(line + b"\n" for line in lines))
