"""The table of how often bugs' plans show them in containers."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bench.bugs_in_containers import BugRun, BugRuns, read_runs, table_rows, why_not
from highwater_checker.finding import CheckResult, Finding
from highwater_checker.verdict import Outcome, Requirement, Verdict

FAIL, PASS, UNKNOWN = Outcome.FAIL, Outcome.PASS, Outcome.UNKNOWN


@pytest.mark.parametrize(
    ("runs", "cells"),
    [
        (
            [BugRun(1, False, FAIL, ("I11",), 9.0), BugRun(1, True, PASS, (), 9.0)],
            ["1 of 1", "1 of 1", ""],
        ),
        (
            [BugRun(1, False, FAIL, ("I3",), 9.0), BugRun(1, False, PASS, (), 9.0, "missed")],
            ["1 of 2", "–", "missed"],
        ),
        (
            [BugRun(1, False, FAIL, ("I14",), 9.0, "another invariant")],
            ["0 of 1", "–", "another invariant"],
        ),
        (
            [
                BugRun(1, False, UNKNOWN, (), 0, "containers cannot: x"),
                BugRun(1, True, FAIL, (), 1),
            ],
            ["–", "0 of 1", "containers cannot: x"],
        ),
    ],
    ids=["shown", "once of twice", "another's violation", "refused"],
)
def test_a_row_counts_what_its_bug_breaks_and_twins_that_pass(
    runs: list[BugRun], cells: list[str]
) -> None:
    assert table_rows(runs) == [["1", "KAFKA-1211", *cells]]


@pytest.mark.parametrize(
    ("verdict", "why"),
    [
        (Verdict(PASS, (CheckResult("I1", 0, ()),), ()), "no invariant was violated"),
        (
            Verdict(UNKNOWN, (), (Requirement("done: kill", False, "missed: nobody\nis that"),)),
            "done: kill: missed: nobody",
        ),
        (
            Verdict(FAIL, (CheckResult("I3", 1, (Finding("I3", "they differ"),)),), ()),
            str(Finding("I3", "they differ")),
        ),
    ],
)
def test_a_run_that_shows_something_else_says_why(verdict: Verdict, why: str) -> None:
    assert why_not(verdict) == why


def test_runs_are_kept_in_a_file_and_added_to(tmp_path: Path) -> None:
    runs = (BugRun(2, False, FAIL, ("I1",), 12.5), BugRun(2, True, PASS, (), 11.0))
    path = tmp_path / "runs.json"
    path.write_bytes(msgspec.json.encode(BugRuns("2026-11-27 23:00 UTC", runs)))
    assert read_runs(path) == runs
