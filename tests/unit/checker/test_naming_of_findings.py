"""Findings under a preset that may break are named by the rows that the evidence shows."""

from __future__ import annotations

import pytest

from highwater_checker.finding import CheckResult, Finding, Traced
from highwater_checker.naming import NAMED_OF_EACH, name_findings
from highwater_core.config import Preset
from highwater_core.events import EventKind, TraceEvent

AT = ("t", 0)


def traced(
    at_ns: int, kind: EventKind, node: int, leader_epoch: int, offset: int | None, **detail: object
) -> TraceEvent:
    return TraceEvent(at_ns, node, 1, at_ns, kind, *AT, leader_epoch, 0, offset, dict(detail))


UNCLEAN = traced(5, EventKind.LEADERSHIP_DECIDED, 1000, 1, None, leader=2, isr=[2], unclean=True)
COMMITTED = traced(1, EventKind.HIGH_WATERMARK_ADVANCED, 0, 0, 5, isr=[0, 1, 2], log_end_offset=5)
CUT = traced(
    8, EventKind.LOG_TRUNCATED, 2, 1, 3,
    from_offset=5, high_watermark=3, reason="to the high watermark",
)  # fmt: skip
BACK = traced(9, EventKind.FETCHER_STOPPED, 2, 1, 5)


def checked(*findings: Finding) -> list[CheckResult]:
    return [CheckResult("a check", 1, findings)]


def test_a_finding_of_v3_gets_the_rows_that_explain_it_in_words_and_as_numbers() -> None:
    (check,) = name_findings(checked(Finding("I1", "lost", *AT, 7)), [UNCLEAN], (Preset.V3,))
    (finding,) = check.findings
    assert finding.rows == (10,)
    assert finding.message == "lost"
    assert finding.ids[0] == "KIP-106"
    assert "outside the ISR" in finding.cause
    assert str(finding).startswith("I1: t-0, offset 7: lost: row 10 (KIP-106, ")


@pytest.mark.parametrize(
    "anomaly", ["unseen", "inconsistent-offsets", "realtime-send", "nonmonotonic-send"]
)
def test_what_clients_saw_of_a_known_flaw_gets_its_row(anomaly: str) -> None:
    (check,) = name_findings(checked(Finding(anomaly, "odd", *AT, 7)), [UNCLEAN], (Preset.V3,))
    assert check.findings[0].rows == (10,)


def test_a_finding_of_fenced_and_one_that_no_row_explains_keep_their_words() -> None:
    lost = checked(Finding("I1", "lost", *AT, 7))
    assert name_findings(lost, [UNCLEAN], (Preset.FENCED,)) == lost
    unexplained = checked(Finding("I17", "too few", *AT, 7))
    assert name_findings(unexplained, [UNCLEAN], (Preset.V3,)) == unexplained


def test_a_finding_is_explained_by_earlier_events_on_any_node() -> None:
    """The follower is back later: that does not undo its truncation of committed records."""
    cut_off = checked(Finding("I11", "cut", *AT, 3, traced=(Traced.of(CUT),)))
    (check,) = name_findings(cut_off, [CUT, BACK, COMMITTED], (Preset.V3,))
    assert check.findings[0].rows == (1,)
    (check,) = name_findings(
        checked(Finding("I1", "lost", *AT, 3)), [CUT, BACK, COMMITTED], (Preset.V3,)
    )
    assert check.findings[0].rows == ()


def test_of_many_findings_of_one_kind_the_first_are_named_in_each_partition() -> None:
    many = [Finding("I1", f"lost {offset}", *AT, offset) for offset in range(5, 25)]
    elsewhere = Finding("I1", "lost", "other", 0, 7)
    (check,) = name_findings(checked(*many, elsewhere), [UNCLEAN], (Preset.V3,))
    assert [finding.rows for finding in check.findings[:-1]] == [(10,)] * NAMED_OF_EACH + [()] * (
        len(many) - NAMED_OF_EACH
    )
    assert check.findings[-1].rows == ()
