"""A verdict for programs: each finding by itself names its run, place and lines of evidence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from highwater_checker.finding import CheckResult, Finding
from highwater_checker.run_folder import names
from highwater_checker.run_folder.histories import HistoryLine, lines_of_operations
from highwater_checker.verdict import Outcome, Requirement, Verdict


@dataclass(frozen=True, slots=True)
class JudgedFinding:
    """One violation. What is not known of it is None, or empty.

    run: the name of the run's folder, which runs in different folders may share.
    folder: the whole path of the run's folder.
    evidence: the lines of the operation in the run's histories.
    around: what each replica holds from three records before the offset to three after it.
    rows: of the catalogue of historical bugs, those that explain it.
    """

    run: str
    folder: str
    check: str
    invariant: str
    message: str
    node: str | None
    topic: str | None
    partition: int | None
    offset: int | None
    operation: str | None
    evidence: tuple[HistoryLine, ...]
    around: tuple[str, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class JudgedCheck:
    """A check without its findings; found: how many there are."""

    check: str
    examined: int
    found: int
    noted: tuple[tuple[str, int], ...]
    unread: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """The verdict of one run; the reasons are those that a terminal shows."""

    run: str
    folder: str
    outcome: Outcome
    reasons: tuple[str, ...]
    findings: tuple[JudgedFinding, ...]
    checks: tuple[JudgedCheck, ...]
    requirements: tuple[Requirement, ...]
    idle: tuple[str, ...]


def judged_run(folder: Path, verdict: Verdict) -> JudgedRun:
    """Return the verdict of the folder's run; the lines of evidence are read from the folder."""
    folder = folder.resolve()
    found = [(check, finding) for check in verdict.checks for finding in check.findings]
    operations = {finding.operation for _, finding in found}
    lines = lines_of_operations(folder / names.HISTORY, operations)
    return JudgedRun(
        run=folder.name,
        folder=str(folder),
        outcome=verdict.outcome,
        reasons=verdict.reasons,
        findings=tuple(
            _judged_finding(folder, check, finding, tuple(lines.get(finding.operation, ())))
            for check, finding in found
        ),
        checks=tuple(
            JudgedCheck(each.check, each.examined, len(each.findings), each.noted, each.unread)
            for each in verdict.checks
        ),
        requirements=verdict.requirements,
        idle=verdict.idle,
    )


def _judged_finding(
    folder: Path, check: CheckResult, finding: Finding, lines: tuple[HistoryLine, ...]
) -> JudgedFinding:
    return JudgedFinding(
        run=folder.name,
        folder=str(folder),
        check=check.check,
        invariant=finding.invariant,
        message=finding.message,
        node=names.of_broker(finding.broker) if finding.broker >= 0 else None,
        topic=finding.topic or None,
        partition=finding.partition if finding.partition >= 0 else None,
        offset=finding.offset if finding.offset >= 0 else None,
        operation=finding.operation or None,
        evidence=lines,
        around=finding.around,
        rows=finding.rows,
    )
