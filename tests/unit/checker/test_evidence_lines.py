"""The lines that show a finding; of a poll, with a line for each record, the record's alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater_checker.finding import Finding
from highwater_checker.history import OperationType
from highwater_checker.run_folder.evidence_lines import evidence_of
from tests.support.run_on_disk import SENT, history_line, write, write_run

POLLED = history_line(OperationType.OK, function="poll", process="c0")
AT = b'"offset":'


def at(offset: int) -> bytes:
    lines = POLLED.replace(AT + b"0", AT + str(offset).encode())
    assert lines != POLLED or not offset
    return lines


@pytest.mark.parametrize(("offset", "lines"), [(2, [3]), (7, [1, 2, 3]), (-1, [1, 2, 3])])
def test_a_polls_line_of_the_findings_record_is_its_evidence(
    tmp_path: Path, offset: int, lines: list[int]
) -> None:
    run = write_run(tmp_path / "run")
    write(run / "history" / "c0.jsonl", at(0) + at(1) + at(2))
    finding = Finding("I9", "it is gone", "t", 0, offset, operation="c0's poll 0")
    (shown,) = evidence_of(run, [finding])
    assert [line.line for line in shown] == lines


def test_a_send_has_both_its_lines(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    write(run / "history" / "p0.jsonl", SENT)
    (shown,) = evidence_of(run, [Finding("I1", "lost", "t", 0, 0, operation="p0's send 0")])
    assert [line.line for line in shown] == [1, 2]
