"""The text about its cluster's verdict in a test's report."""

from __future__ import annotations

from pathlib import Path

from highwater.runs.judged.words import NO_HISTORY, say_verdict
from highwater_checker.finding import CheckResult, Finding
from highwater_checker.invariants.acknowledged_records import CHECK as ACKNOWLEDGED
from highwater_checker.verdict import Requirement, judge

FOLDER = Path("runs/test-1")


def test_a_pass_is_one_line() -> None:
    verdict = judge([CheckResult(ACKNOWLEDGED, 3, ())], [])
    assert say_verdict("test_a.py::test_b", FOLDER, verdict) == (
        "test_a.py::test_b: pass, runs/test-1"
    )


def test_without_acknowledgements_the_report_lists_checks_and_unknowns() -> None:
    checks = [CheckResult(ACKNOWLEDGED, 0, ()), CheckResult("one leader", 2, ())]
    torn = CheckResult("segments decode", 4, (), unread=("final_look.json is missing",))
    met, unmet = Requirement("rest", True, ""), Requirement("records", False, "0")
    verdict = judge([*checks, torn], [met, unmet], ["compaction"])
    assert say_verdict("test", FOLDER, verdict).splitlines() == [
        "test: unknown, runs/test-1",
        "  checked, nothing found: one leader, 2 examined",
        f"  {NO_HISTORY}",
        f"  not checked, nothing to examine: {ACKNOWLEDGED}",
        "  not checked, nothing to examine: compaction",
        "  evidence missing: segments decode: final_look.json is missing",
        "  not met: records: 0",
    ]


def test_findings_come_first_and_are_few() -> None:
    findings = tuple(Finding("I1", "lost", "t", 0, offset) for offset in range(12))
    verdict = judge([CheckResult(ACKNOWLEDGED, 12, findings)], [])
    first, *found, more, how = say_verdict("test", FOLDER, verdict).splitlines()
    assert first == "test: fail, runs/test-1"
    assert len(found) == 10
    assert found[0] == f"  found: {findings[0]}"
    assert more == "  ... and 2 more in verdict.json"
    assert how == "  how it came: runs/test-1/report.html, or highwater explain runs/test-1"
