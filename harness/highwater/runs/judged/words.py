"""The scope of the verdict about a test's cluster, in words. No I/O."""

from __future__ import annotations

from pathlib import Path

from highwater.output import printable
from highwater.report.explained import command_to_explain
from highwater.report.page import PAGE
from highwater_checker.invariants.acknowledged_records import CHECK as ACKNOWLEDGED
from highwater_checker.verdict import Outcome, Verdict

MOST_REASONS = 10
NO_HISTORY = (
    "no acknowledgement to a producer of the cluster's producer() was checked: whether "
    "acknowledged records were lost, repeated or reordered is not known"
)


def say_verdict(test: str, folder: Path, verdict: Verdict) -> str:
    """Return the verdict, its reasons, the checks made and the checks left out, a line each."""
    lines = [f"{test}: {verdict.outcome.value}, {folder}"]
    findings = [str(finding) for check in verdict.checks for finding in check.findings]
    lines += [f"  found: {each}" for each in findings[:MOST_REASONS]]
    if len(findings) > MOST_REASONS:
        lines.append(f"  ... and {len(findings) - MOST_REASONS} more in verdict.json")
    if findings:
        lines.append(f"  how it came: {folder / PAGE}, or {command_to_explain(folder)}")
    if verdict.outcome is Outcome.PASS:
        return "\n".join(map(printable, lines))
    clean = [each for each in verdict.checks if not each.findings and not each.unread]
    checked = [f"{each.check}, {each.examined} examined" for each in clean if each.examined]
    lines += [f"  checked, nothing found: {each}" for each in checked]
    if any(check.check == ACKNOWLEDGED and not check.examined for check in verdict.checks):
        lines.append(f"  {NO_HISTORY}")
    idle = [each.check for each in verdict.checks if not each.examined]
    lines += [f"  not checked, nothing to examine: {each}" for each in (*idle, *verdict.idle)]
    unread = [f"{check.check}: {each}" for check in verdict.checks for each in check.unread]
    lines += [f"  evidence missing: {each}" for each in unread]
    unmet = [f"{each.name}: {each.evidence}" for each in verdict.requirements if not each.met]
    lines += [f"  not met: {each}" for each in unmet]
    return "\n".join(map(printable, lines))
