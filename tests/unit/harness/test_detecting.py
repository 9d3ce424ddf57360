"""When a planted bug's violation began, and whether a run exercises the bug."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from highwater.runs.chaos.detecting import Detection, detect, first_violation_ns
from highwater.runs.chaos.planted_plans import CONTROLS, PLANTED_PLANS
from highwater.runs.plans.outcome import PlanResult
from highwater.runs.plans.translation import unsupported
from highwater_chaos.plan import Plan, problems_of
from highwater_checker.finding import CheckResult, Finding
from highwater_checker.history import HistoryEvent, OperationType
from highwater_checker.verdict import Outcome, Verdict
from highwater_core.events import EventKind, TraceEvent
from highwater_planted import PLANTED

FAULT_NS = 10


def traced(
    at_ns: int, kind: EventKind, node: int, leader_epoch: int, offset: int
) -> tuple[int, TraceEvent]:
    return at_ns, TraceEvent(0, node, 1, 0, kind, "t", 0, leader_epoch, 0, offset)


def poll(at_ns: int, offset: int) -> HistoryEvent:
    return HistoryEvent(at_ns, OperationType.OK, 0, "c0", "poll", "t", 0, "p0-1", offset)


TRACE = (
    traced(1, EventKind.BECAME_LEADER, 0, 0, 0),
    traced(20, EventKind.BECAME_LEADER, 1, 1, 5),
    traced(21, EventKind.LOG_TRUNCATED, 2, 1, 4),
    traced(30, EventKind.BECAME_LEADER, 2, 1, 9),
)
READS = (poll(5, 7), poll(15, 8))


@pytest.mark.parametrize(
    ("invariant", "offset", "at_ns"),
    [
        pytest.param("I1", 5, 20, id="a leader begins without the record"),
        pytest.param("I1", 4, None, id="every later leader has it"),
        pytest.param("I4", 9, 20, id="the first leader that lacks it"),
        pytest.param("I11", 4, 21, id="the log is cut there"),
        pytest.param("I7", -1, 30, id="a second broker leads the epoch"),
        pytest.param("I9", 8, 15, id="a consumer has it"),
        pytest.param("I9", 7, None, id="a consumer had it before the fault"),
        pytest.param("I3", 5, None, id="logs that differ are seen at the end"),
    ],
)
def test_a_violation_comes_about_with_the_event_that_makes_it_one(
    invariant: str, offset: int, at_ns: int | None
) -> None:
    finding = Finding(invariant, "", "t", 0, offset)
    assert first_violation_ns([finding], TRACE, READS, FAULT_NS) == at_ns
    elsewhere = Finding(invariant, "", "t", 1, offset)
    assert first_violation_ns([elsewhere], TRACE, READS, FAULT_NS) is None


def test_the_first_of_several_findings_counts() -> None:
    findings = [Finding(name, "", "t", 0, 4) for name in ("I7", "I11", "I3")]
    assert first_violation_ns(findings, TRACE, READS, FAULT_NS) == 21


@pytest.mark.parametrize(
    ("bug", "outcome", "named", "is_right"),
    [
        ("a", Outcome.FAIL, ("I1", "I9"), True),
        ("a", Outcome.FAIL, ("I9",), False),
        ("a", Outcome.UNKNOWN, ("I1",), False),
        ("", Outcome.PASS, (), True),
        ("", Outcome.UNKNOWN, (), False),
    ],
)
def test_a_bug_is_caught_by_its_own_check_only_and_a_run_without_one_must_pass(
    bug: str, outcome: Outcome, named: tuple[str, ...], is_right: bool
) -> None:
    assert Detection(bug, "", "I1", outcome, named, 1.0).is_right is is_right


def test_a_run_is_measured_from_its_folder(tmp_path: Path) -> None:
    (tmp_path / "intent.jsonl").write_text('{"at_ns":5,"number":1,"phase":"intended"}\n')
    check = CheckResult("a check", 1, (Finding("I3", "differ", "t", 0, 5),))

    def run(plan: Plan) -> PlanResult:
        return PlanResult(tmp_path, Verdict(Outcome.FAIL, (check,), ()))

    found = detect(PLANTED_PLANS[0].plan(), run)
    assert (found.bug, found.invariant) == ("acknowledged_on_append", "I1")
    assert (found.outcome, found.named, found.to_violation_s) == (Outcome.FAIL, ("I3",), None)


def test_at_least_eight_bugs_that_there_are_have_a_plan_that_containers_can_run() -> None:
    names = [each.bug for each in PLANTED_PLANS]
    assert len(set(names)) == len(names) >= 8
    assert set(names) <= set(PLANTED)
    plans: Sequence[Plan] = [each.plan() for each in PLANTED_PLANS]
    for plan in (*plans, *(control.plan() for control in CONTROLS)):
        assert problems_of(plan) == []
        assert unsupported(plan) == []
    assert [control.plan().planted for control in CONTROLS] == [""] * len(CONTROLS)
