"""The verdict of a run: pass, fail or unknown, and why.

Unknown is never pass: a run in which too little happened, or whose evidence is incomplete,
proves nothing, however clean its checks are.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from highwater_checker.finding import CheckResult, Finding


class Outcome(StrEnum):
    PASS = "pass"  # noqa: S105 - a verdict, not a secret
    FAIL = "fail"
    UNKNOWN = "unknown"


EXIT_CODES: dict[Outcome, int] = {Outcome.PASS: 0, Outcome.FAIL: 1, Outcome.UNKNOWN: 2}
WORST_FIRST = (Outcome.FAIL, Outcome.UNKNOWN, Outcome.PASS)


def worst_of(outcomes: Collection[Outcome]) -> Outcome:
    """Return fail if a run failed, else unknown if one is unknown, else pass; of one run at least.

    Raises:
        ValueError: there is no run.
    """
    return min(outcomes, key=WORST_FIRST.index)


@dataclass(frozen=True, slots=True)
class Requirement:
    """An event that must have happened for a clean run to prove anything."""

    name: str
    met: bool
    evidence: str


@dataclass(frozen=True, slots=True)
class Verdict:
    outcome: Outcome
    checks: tuple[CheckResult, ...]
    requirements: tuple[Requirement, ...]
    idle: tuple[str, ...] = ()
    """Checks that had nothing to examine, in a run where that is allowed."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return the findings of all checks, in the order of the checks."""
        return tuple(finding for check in self.checks for finding in check.findings)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Return one line for each finding, vacuous check, unread part and unmet requirement."""
        return (*map(str, self.findings), *self.without_findings)

    @property
    def without_findings(self) -> tuple[str, ...]:
        """Return the reasons for which a run without findings would be unknown."""
        vacuous = [f"{c.check}: nothing to examine" for c in self.checks if c.examined <= 0]
        unread = [f"{check.check}: {each}" for check in self.checks for each in check.unread]
        unmet = [f"{r.name}: {r.evidence}" for r in self.requirements if not r.met]
        return (*vacuous, *unread, *unmet)


def judge(
    checks: Sequence[CheckResult],
    requirements: Sequence[Requirement],
    idle: Sequence[str] = (),
) -> Verdict:
    """Return FAIL with a finding, UNKNOWN with a vacuous check, unread part or requirement."""
    if any(check.findings for check in checks):
        outcome = Outcome.FAIL
    elif any(c.examined <= 0 or c.unread for c in checks) or not all(r.met for r in requirements):
        outcome = Outcome.UNKNOWN
    else:
        outcome = Outcome.PASS
    return Verdict(outcome, tuple(checks), tuple(requirements), tuple(idle))
