"""The oracle's findings in a simulated run, and the run's requirements, for the judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from highwater_chaos.plan import Expected, Step
from highwater_chaos.words import say_step
from highwater_checker.finding import CheckResult, Finding, Traced
from highwater_checker.verdict import Outcome, Requirement
from highwater_core.events import TraceEvent
from highwater_simulator.runner import SHRINKING_PROBED, RunResult
from highwater_simulator.search import Found, explained, find

CHECK = "invariants after every event, and the end"


def watched(result: RunResult) -> CheckResult:
    """Return the oracle's result as a check.

    A violation by a documented flaw of the preset is a finding too, with the flaw's rows. A flagged
    observation that the catalogue explains is no finding.
    """
    found = find(result)
    flags = Counter(f"{explained(flag, result).kind} flagged" for flag in result.flags)
    return CheckResult(
        CHECK,
        result.events,
        () if found is None else (_finding(found, result),),
        noted=tuple(flags.items()),
    )


def requirements_of(result: RunResult) -> tuple[Requirement, ...]:
    """Return the events that had to happen for the run to prove anything."""
    acknowledged = result.acknowledged
    return (
        Requirement("records were acknowledged", acknowledged > 0, str(acknowledged)),
        *(
            Requirement(f"done: {say_step(step)}", is_done, how)
            for step, is_done, how in steps_of(result)
        ),
        *_probes(result),
    )


def _probes(result: RunResult) -> Iterator[Requirement]:
    if result.plan.probes_shrinking:
        count = result.marks[SHRINKING_PROBED]
        yield Requirement(
            "a leader had to go on without a follower",
            count > 0,
            "done" if count else "no ISR had a member to spare",
        )


def steps_of(result: RunResult) -> Iterator[tuple[Step, bool, str]]:
    """Yield each step, whether it was done, and its outcome."""
    for step in result.outcome.fired:
        yield step, True, "done"
    for step, why in steps_missed(result):
        yield step, False, f"missed: {why}"


def steps_missed(result: RunResult) -> Iterator[tuple[Step, str]]:
    """Yield each step that was not done, and why."""
    for step in result.outcome.missed:
        yield step, "there was nobody, or nothing, to do it to"
    for step in result.outcome.not_reached:
        yield step, "its moment never came"


def expected_of(found: Found | None, bug: str) -> Expected:
    """Return the result of a run with that planted bug, as the expected result of later runs."""
    if found is None:
        return Expected(Outcome.PASS.value, planted=bug)
    return Expected(Outcome.FAIL.value, found.violation.invariant, found.rows, bug)


def _finding(found: Found, result: RunResult) -> Finding:
    """Return the finding, with the last event on its partition before the violation was seen."""
    violation = found.violation
    before = result.trace.entries[: violation.trace_length]
    on_it = (
        event
        for event in (entry.event for entry in reversed(before))
        if isinstance(event, TraceEvent)
        and (event.topic or "", event.partition) == (violation.topic, violation.partition)
    )
    return Finding(
        violation.invariant,
        violation.message,
        violation.topic,
        violation.partition,
        violation.offset,
        rows=found.rows,
        ids=found.ids,
        cause=found.evidence,
        traced=tuple(Traced.of(event) for event in islice(on_it, 1)),
    )
