"""A bug's plan, and the same with every fix, run in virtual time: what each shows, its story."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from highwater.bugs.kept import Bug, means_of
from highwater.errors import HarnessError
from highwater_chaos.fixed import with_every_fix
from highwater_chaos.plan import Plan
from highwater_chaos.words import say_plan
from highwater_checker.catalogue.rows import Row
from highwater_checker.stories.entries import ORACLE, Entry, Note
from highwater_checker.stories.story import Story, story_of
from highwater_simulator.oracle.violation import Violation
from highwater_simulator.runner import RunResult, run_plan
from highwater_simulator.search import bug_or_none, explained, find


@dataclass(frozen=True, slots=True)
class Told:
    """One run of a bug's plan, or of the same with every fix.

    violation: None for a run that shows none.
    evidence: how the row's trigger is in the trace, in one sentence; "" where it is not, or where
        the row has no trigger.
    """

    plan: Plan
    violation: Violation | None
    evidence: str
    story: Story

    @property
    def means(self) -> str:
        return means_of(self.plan)

    def ending(self) -> Iterator[str]:
        """Yield what the run showed."""
        if self.violation is None:
            yield "no invariant was violated"
            return
        yield str(self.violation)
        if self.evidence:
            yield f"how it came: {self.evidence}"


@dataclass(frozen=True, slots=True)
class BugTold:
    """A bug's two runs: with the bug, and with every fix."""

    bug: Bug
    shown: Told
    mended: Told

    def problems(self) -> Iterator[str]:
        """Yield why the runs do not show the bug and its fix; nothing if they do."""
        expected = self.shown.plan.expected
        wanted = "" if expected is None else expected.invariant
        found = "nothing" if self.shown.violation is None else self.shown.violation.invariant
        if found != wanted:
            yield f"{self.bug.name}: {wanted or 'a violation'} was to be shown, {found} was found"
        elif self.bug.row.trigger is not None and not self.shown.evidence:
            yield f"{self.bug.name}: row {self.bug.row.number}'s trigger is not in the trace"
        if self.mended.violation is not None:
            yield f"{self.bug.name}: with every fix {self.mended.violation}"


def tell(bug: Bug) -> BugTold:
    """Run the bug's plan, and the same with every fix.

    Raises:
        HasNoPlan: no plan shows it.
    """
    plan = bug.plan()
    return BugTold(bug, _told(bug.row, plan), _told(bug.row, with_every_fix(plan)))


def say_bug(row: Row) -> Iterator[str]:
    """Yield the row's title, ids and versions, and the invariants that it breaks."""
    yield f"{row.title} (row {row.number})"
    yield f"{', '.join(row.ids)}. Affected: {row.affected}. Fixed in: {row.fixed_in}."
    for invariant, how in row.breaks.items():
        yield f"breaks {invariant}: {how}"


def say_steps(plan: Plan) -> Iterator[str]:
    """Yield the plan in words."""
    if plan.planted:
        yield f"every node has the planted mistake {plan.planted}"
    yield from say_plan(plan)


def _told(row: Row, plan: Plan) -> Told:
    with bug_or_none(plan.planted):
        result = run_plan(plan)
    if result.faults_begin_ns is None and result.violation is None:
        raise HarnessError(f"{plan.title}: the cluster did not get ready")
    found = find(result)
    violation = None if found is None else found.violation
    entries = list(_without_flags_of_others(row, result))
    story = (
        story_of(entries)
        if violation is None
        else story_of(entries, violation.topic, str(violation))
    )
    return Told(plan, violation, _evidence(row, violation, result), story)


def _without_flags_of_others(row: Row, result: RunResult) -> Iterator[Entry]:
    """Yield the run's entries, without what did not end the run and is not the row's doing.

    The same flag is told once.
    """
    first = {str(flag): flag for flag in reversed(result.flags)}
    by_row = {text for text, flag in first.items() if row.number in explained(flag, result).rows}
    told: set[str] = set()
    for entry in result.trace.entries:
        text = entry.event.what if isinstance(entry.event, Note) and entry.who == ORACLE else ""
        if text in first and (text not in by_row or text in told):
            continue
        told.add(text)
        yield entry


def _evidence(row: Row, violation: Violation | None, result: RunResult) -> str:
    if violation is None or row.trigger is None:
        return ""
    at = (violation.topic, violation.partition, violation.offset)
    return row.trigger(result.trace.events(), *at) or ""
