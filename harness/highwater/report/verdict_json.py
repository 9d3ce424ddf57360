"""A verdict for programs: each finding names its run, place and lines of evidence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from highwater_checker.finding import CheckResult, Finding
from highwater_checker.run_folder.evidence_lines import EvidenceLine, evidence_of
from highwater_checker.run_folder.files import text_of
from highwater_checker.verdict import Outcome, Requirement, Verdict
from highwater_core.ids import node_name


@dataclass(frozen=True, slots=True)
class JudgedFinding:
    """One violation. Unknown fields are None, or empty.

    run: the name of the run's folder, which runs in different folders may share.
    folder: the whole path of the run's folder.
    evidence: the lines of the operation in the run's histories, and those of the traced events,
    looks and probes that show it.
    around: what each replica holds from three records before the offset to three after it.
    rows: the rows of the catalogue of historical bugs that explain it.
    ids: the JIRA and KIP ids of those rows.
    cause: the events of the run that are those rows' triggers, in a sentence.
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
    evidence: tuple[EvidenceLine, ...]
    around: tuple[str, ...]
    rows: tuple[int, ...]
    ids: tuple[str, ...]
    cause: str | None


@dataclass(frozen=True, slots=True)
class JudgedCheck:
    """A check without its findings; found: their number."""

    check: str
    examined: int
    found: int
    noted: tuple[tuple[str, int], ...]
    unread: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """The verdict of one run, with the reasons that a terminal shows."""

    run: str
    folder: str
    outcome: Outcome
    reasons: tuple[str, ...]
    findings: tuple[JudgedFinding, ...]
    checks: tuple[JudgedCheck, ...]
    requirements: tuple[Requirement, ...]
    idle: tuple[str, ...]


def judged_run(folder: Path, verdict: Verdict) -> JudgedRun:
    """Return the verdict of the folder's run, with lines of evidence from the folder."""
    folder = folder.resolve()
    found = [(check, finding) for check in verdict.checks for finding in check.findings]
    lines = evidence_of(folder, [finding for _, finding in found])
    return JudgedRun(
        run=text_of(folder.name),
        folder=text_of(folder),
        outcome=verdict.outcome,
        reasons=verdict.reasons,
        findings=tuple(
            _judged_finding(folder, check, finding, own)
            for (check, finding), own in zip(found, lines, strict=True)
        ),
        checks=tuple(
            JudgedCheck(each.check, each.examined, len(each.findings), each.noted, each.unread)
            for each in verdict.checks
        ),
        requirements=verdict.requirements,
        idle=verdict.idle,
    )


def _judged_finding(
    folder: Path, check: CheckResult, finding: Finding, lines: tuple[EvidenceLine, ...]
) -> JudgedFinding:
    return JudgedFinding(
        run=text_of(folder.name),
        folder=text_of(folder),
        check=check.check,
        invariant=finding.invariant,
        message=finding.message,
        node=_node_of(finding),
        topic=finding.topic or None,
        partition=finding.partition if finding.partition >= 0 else None,
        offset=finding.offset if finding.offset >= 0 else None,
        operation=finding.operation or None,
        evidence=lines,
        around=finding.around,
        rows=finding.rows,
        ids=finding.ids,
        cause=finding.cause or None,
    )


def _node_of(finding: Finding) -> str | None:
    """Return the finding's broker, else the one node whose trace shows it."""
    if finding.broker >= 0:
        return node_name(finding.broker)
    nodes = {each.node for each in finding.traced}
    if len(nodes) != 1:
        return None
    return node_name(*nodes)
