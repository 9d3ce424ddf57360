"""Decides which rows explain a violation of a plan's run, and whether the run goes on past it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from highwater_chaos.plan import Plan
from highwater_checker.catalogue.explain import Explanation, explain
from highwater_checker.catalogue.rows import CATALOGUE
from highwater_checker.stories.entries import Entry
from highwater_core.config import MayBreak
from highwater_core.events import TraceEvent
from highwater_core.ids import TopicPartition
from highwater_core.mixing import promised_by_all
from highwater_simulator.oracle.violation import Violation

_Key = tuple[TopicPartition | None, str, str]
FLAGGED = ("I10", "I12")
"""Invariants whose violations never end a run of a preset that does not promise them."""


def may_break(plan: Plan) -> Mapping[str, MayBreak]:
    """Return by invariant the rows that may break it in the plan's run.

    They are the rows of its nodes' presets, and those that the plan expects: its toggles, or its
    planted mistake, bring them back.
    """
    promises = promised_by_all(plan.presets)
    expected = () if plan.expected is None else plan.expected.rows
    if not expected:
        return promises
    found = {name: each.rows for name, each in promises.items()}
    for row in CATALOGUE:
        for name in row.invariants if row.number in expected else ():
            found[name] = tuple(sorted({*found[name], row.number}))
    return {name: MayBreak(rows) for name, rows in found.items()}


def explanations_of(
    plan: Plan, violation: Violation, entries: Sequence[Entry]
) -> tuple[Explanation, ...]:
    """Return the rows that explain the violation; entries: of its run's trace, at least up to it.

    Later events of the same moment explain nothing.
    """
    allowed = may_break(plan)
    if not any(each.rows for each in allowed.values()):
        return ()
    until = [
        entry.event
        for entry in entries[: violation.trace_length]
        if isinstance(entry.event, TraceEvent)
    ]
    return explain(
        violation.invariant,
        violation.topic,
        violation.partition,
        violation.offset,
        until,
        allowed,
    )


NO_PLAN = Plan(seed=0)


class OnTheWay:
    """Decides which violations a plan's run goes on past.

    A run of a preset that does not promise a flagged invariant goes on past its violations. The run
    of a plan that expects an invariant's violation also goes on past violations of others that a
    row explains: their bug does its harm only later. Whatever no row explains ends it.
    """

    def __init__(
        self,
        plan: Plan = NO_PLAN,
        entries: Sequence[Entry] = (),
        also_flagged: tuple[str, ...] = (),
    ) -> None:
        """entries: of the run's trace, which grows. also_flagged: more flagged invariants.

        A world without a plan ends at the first violation.
        """
        self._plan = plan
        self._entries = entries
        promises = promised_by_all(plan.presets)
        self._flagged = (*(name for name in FLAGGED if promises[name].rows), *also_flagged)
        self.flags: list[Violation] = []
        """Violations that did not end the run."""
        self._passed: dict[_Key, Violation] = {}
        """The first of equal violations that the run went past because the plan expects another."""

    def was_passed(self, at: TopicPartition | None, invariant: str, message: str) -> bool:
        """Return whether the run went past the same violation before."""
        return (at, invariant, message) in self._passed

    def goes_on_past(self, violation: Violation) -> bool:
        """Return whether the run goes on; the violation is a flag then."""
        if violation.invariant not in self._flagged:
            if not self._leads_to_another(violation):
                return False
            at = TopicPartition(violation.topic, violation.partition) if violation.topic else None
            self._passed[at, violation.invariant, violation.message] = violation
        self.flags.append(violation)
        return True

    def _leads_to_another(self, violation: Violation) -> bool:
        """Return whether the plan expects another violation, and a row explains this one."""
        awaited = "" if self._plan.expected is None else self._plan.expected.invariant
        is_other = awaited not in ("", violation.invariant)
        return is_other and bool(explanations_of(self._plan, violation, self._entries))

    def first_passed(self) -> Violation | None:
        """Return the first of the violations that were passed for the expected one."""
        return next(iter(self._passed.values()), None)
