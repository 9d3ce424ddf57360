"""The table of how often bugs' plans show them in containers."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bench.bugs_in_containers import BugRun, BugRuns, read_runs, table_rows, why_not
from highwater.bugs.in_containers import WHY_NOT
from highwater_checker.finding import CheckResult, Finding
from highwater_checker.verdict import Outcome, Requirement, Verdict

FAIL, PASS, UNKNOWN = Outcome.FAIL, Outcome.PASS, Outcome.UNKNOWN
HOW = "I11 violated: a replica cut too much"


@pytest.mark.parametrize(
    ("runs", "cells"),
    [
        (
            [BugRun(1, False, FAIL, HOW, 9.0), BugRun(1, True, PASS, "", 9.0)],
            ["1 of 1", "1 of 1", ""],
        ),
        (
            [BugRun(1, False, FAIL, HOW, 9.0), BugRun(1, False, PASS, "", 9.0, "missed")],
            ["1 of 2", "0 of 0", "missed"],
        ),
        (
            [BugRun(1, False, FAIL, "", 9.0, "another invariant")],
            ["0 of 1", "0 of 0", "another invariant"],
        ),
        (
            [BugRun(1, False, UNKNOWN, HOW, 9.0), BugRun(1, True, UNKNOWN, "", 9.0, "starved")],
            ["1 of 1", "0 of 1", "starved"],
        ),
    ],
    ids=["shown", "once of twice", "another's violation", "a twin that is unknown"],
)
def test_a_row_counts_runs_that_show_its_bug_and_twins_that_pass(
    runs: list[BugRun], cells: list[str]
) -> None:
    assert table_rows(runs)[0] == ["1", "KAFKA-1211", *cells]


def test_rows_that_containers_cannot_show_say_why() -> None:
    rows = {int(row[0]): row[2:] for row in table_rows([])}
    assert rows == {number: ["–", "–", why] for number, why in WHY_NOT.items()}


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
    runs = (BugRun(2, False, FAIL, HOW, 12.5), BugRun(2, True, PASS, "", 11.0))
    path = tmp_path / "runs.json"
    path.write_bytes(msgspec.json.encode(BugRuns("2026-11-27 23:00 UTC", runs)))
    assert read_runs(path) == runs
