"""Members of groups through the judge, from a run's folder alone (I21, I22)."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater_checker.history import ASSIGNED, COMMIT, POLL, HistoryEvent, OperationType, encode
from highwater_checker.judging import judge_run
from highwater_checker.verdict import Verdict
from tests.support.run_on_disk import write, write_run

INVOKE, OK = OperationType.INVOKE, OperationType.OK


def line_of(
    at_ns: int,
    process: str,
    function: str,
    offset: int,
    kind: OperationType = OK,
    operation: int = 0,
) -> bytes:
    """Return a history line of a member of the group g; the run's one record is v0 of t-0."""
    value, generation = ("v0", -1) if function == POLL else ("g", 1 if function == ASSIGNED else -1)
    event = HistoryEvent(
        at_ns, kind, operation, process, function, "t", 0, value, offset, generation=generation
    )
    return encode(event) + b"\n"


ASSIGNED_TO_M0 = line_of(20, "m0", ASSIGNED, -1)
READ = line_of(30, "m0", POLL, 0, operation=1)
COMMITTED = line_of(40, "m0", COMMIT, 1, INVOKE, 2) + line_of(41, "m0", COMMIT, 1, OK, 2)


def findings_in(verdict: Verdict) -> list[tuple[str, str]]:
    found = (finding for check in verdict.checks for finding in check.findings)
    return [(each.invariant, each.operation) for each in found]


@pytest.mark.parametrize(
    ("of_m0", "of_m1", "expected"),
    [
        (ASSIGNED_TO_M0 + READ + COMMITTED, b"", []),
        (ASSIGNED_TO_M0 + COMMITTED, b"", [("I22", "m0's commit 2")]),
        (
            ASSIGNED_TO_M0 + READ + COMMITTED,
            line_of(25, "m1", ASSIGNED, -1),
            [("I21", "m1's assigned 0")],
        ),
    ],
)
def test_members_are_judged_by_their_histories(
    tmp_path: Path, of_m0: bytes, of_m1: bytes, expected: list[tuple[str, str]]
) -> None:
    run = write_run(tmp_path / "run")
    for name, lines in (("m0", of_m0), ("m1", of_m1)):
        write(run / "history" / f"{name}.jsonl", lines)
    verdict = judge_run(run)
    assert findings_in(verdict) == expected
    assert {"generations of groups (I21)", "deliveries to groups (I22)"} <= {
        check.check for check in verdict.checks
    }
