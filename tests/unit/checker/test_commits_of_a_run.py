"""Committed offsets through the judge, from a run's folder alone (I14)."""

from __future__ import annotations

from pathlib import Path

from highwater_checker.history import COMMIT, FETCH_COMMITTED, OperationType
from highwater_checker.judging import judge_run
from highwater_checker.verdict import Outcome, Verdict
from tests.support.run_on_disk import group_line, write, write_run

INVOKE, OK = OperationType.INVOKE, OperationType.OK


COMMITTED = (
    group_line(10, INVOKE, 0, COMMIT, 1) + group_line(11, OK, 0, COMMIT, 1),
    group_line(20, INVOKE, 1, COMMIT, 2) + group_line(21, OK, 1, COMMIT, 2),
)


def fetched(offset: int) -> bytes:
    return group_line(30, INVOKE, 2, FETCH_COMMITTED) + group_line(
        31, OK, 2, FETCH_COMMITTED, offset
    )


def judged(folder: Path, *lines: bytes) -> Verdict:
    run = write_run(folder / "run")
    write(run / "history" / "g1.jsonl", b"".join(lines))
    return judge_run(run)


def findings_in(verdict: Verdict) -> list[tuple[str, str, str]]:
    found = (finding for check in verdict.checks for finding in check.findings)
    return [(each.invariant, each.topic, each.operation) for each in found]


def test_the_last_committed_offset_is_fetched(tmp_path: Path) -> None:
    verdict = judged(tmp_path, *COMMITTED, fetched(2))
    assert findings_in(verdict) == []
    (check,) = [each for each in verdict.checks if "I14" in each.check]
    assert check.examined == 1


def test_an_acknowledged_commit_that_is_gone_is_found(tmp_path: Path) -> None:
    verdict = judged(tmp_path, *COMMITTED, fetched(1))
    assert verdict.outcome is Outcome.FAIL
    assert findings_in(verdict) == [("I14", "t", "g1's fetch_committed 2")]


def test_commits_without_their_beginning_make_no_run_greener(tmp_path: Path) -> None:
    """An outcome alone explains no fetched offset, and its history cannot be believed."""
    verdict = judged(tmp_path, *COMMITTED, group_line(25, OK, 7, COMMIT, 1), fetched(1))
    assert verdict.outcome is Outcome.FAIL
    verdict = judged(tmp_path, *COMMITTED, group_line(25, OK, 7, COMMIT, 2), fetched(2))
    assert verdict.outcome is Outcome.UNKNOWN
    assert any("g1.jsonl" in reason for reason in verdict.reasons), verdict.reasons
