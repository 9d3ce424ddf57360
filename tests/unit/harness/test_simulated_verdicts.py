"""The verdict of one simulated run: reasons for fail and for unknown."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from highwater.search import shrinking
from highwater.search.judging import expected_of, requirements_of, watched
from highwater.search.plans import NoSuchPlan
from highwater_chaos import faults as f
from highwater_chaos.plan import Expected, Plan, PlanTopology, Step
from highwater_checker.finding import Traced
from highwater_checker.verdict import Outcome as Judged
from highwater_checker.verdict import judge
from highwater_core.config import Preset
from highwater_core.events import EventKind, TraceEvent
from highwater_simulator.injector import Outcome
from highwater_simulator.oracle.violation import Violation
from highwater_simulator.runner import RunResult
from highwater_simulator.search import find
from highwater_simulator.trace_log import TraceLog

KILL = Step(5, f.Kill("broker-0"))
LOSS = Violation("I1", "a record is lost", 9, "t", 0, 7)
OLD_EPOCH = Violation("I10", "its last epoch is 0", 9, "t", 0)
"""Under v3 explained by row 4: a leader does not enter its epoch in the cache at once."""
UNEXPLAINED = Violation("I12", "elected from outside the ISR", 9, "t", 0)
"""No election is in the trace."""


def result_of(
    *,
    violation: Violation | None = None,
    flags: tuple[Violation, ...] = (),
    acknowledged: int = 3,
    fired: tuple[Step, ...] = (KILL,),
    missed: tuple[Step, ...] = (),
    not_reached: tuple[Step, ...] = (),
    preset: Preset = Preset.V3,
) -> RunResult:
    trace = TraceLog(lambda: 9)
    trace.sink("broker-1")(TraceEvent(0, 1, 1, 0, EventKind.BECAME_LEADER, "t", 0, 3, offset=5))
    return RunResult(
        plan=Plan(seed=1, topology=PlanTopology(preset=preset)),
        violation=violation,
        flags=flags,
        excused=(),
        acknowledged=acknowledged,
        events=10,
        simulated_ns=9,
        marks=Counter(),
        outcome=Outcome(list(fired), [5] * len(fired), list(missed), list(not_reached)),
        trace=trace,
        history=[],
    )


def test_a_finding_has_the_event_before_it_as_evidence() -> None:
    (shown,) = watched(result_of(violation=LOSS)).findings
    assert shown.traced == (Traced(1, 1, 0),)
    (of_none,) = watched(result_of(violation=replace(LOSS, partition=1))).findings
    assert of_none.traced == ()


@pytest.mark.parametrize(
    ("result", "outcome", "reason"),
    [
        (result_of(), Judged.PASS, ""),
        (result_of(violation=LOSS, preset=Preset.FENCED), Judged.FAIL, "I1: t-0, offset 7"),
        (result_of(violation=OLD_EPOCH), Judged.FAIL, "row 4 (KAFKA-7415"),
        (result_of(flags=(OLD_EPOCH,)), Judged.PASS, ""),
        (result_of(flags=(OLD_EPOCH, UNEXPLAINED)), Judged.FAIL, "I12: t-0"),
        (result_of(acknowledged=0), Judged.UNKNOWN, "records were acknowledged: 0"),
        (result_of(fired=(), missed=(KILL,)), Judged.UNKNOWN, "kill broker-0: missed"),
        (result_of(fired=(), not_reached=(KILL,)), Judged.UNKNOWN, "its moment never came"),
        (result_of(violation=LOSS, fired=(), missed=(KILL,)), Judged.FAIL, "I1: t-0, offset 7"),
    ],
)
def test_a_violation_fails_and_a_missed_step_leaves_it_unknown(
    result: RunResult, outcome: Judged, reason: str
) -> None:
    verdict = judge([watched(result)], requirements_of(result))
    assert verdict.outcome is outcome
    assert reason in "\n".join(verdict.reasons)
    assert bool(verdict.reasons) is (outcome is not Judged.PASS)


@pytest.mark.parametrize(
    ("flags", "broken"), [((OLD_EPOCH,), None), ((OLD_EPOCH, UNEXPLAINED), "I12")]
)
def test_a_run_that_fails_by_a_flag_alone_can_be_shrunk(
    flags: tuple[Violation, ...], broken: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        shrinking, "run_plan", lambda plan: replace(result_of(flags=flags), plan=plan)
    )
    plan = result_of().plan
    if broken is None:
        with pytest.raises(NoSuchPlan, match="nothing to shrink"):
            shrinking.shrink_plan(plan, "", 3, lambda progress: None)
        return
    shrunk = shrinking.shrink_plan(plan, "", 3, lambda progress: None)
    assert shrunk.plan.expected == Expected("fail", broken)


def test_an_explained_flag_is_noted_with_its_row() -> None:
    noted = watched(result_of(flags=(OLD_EPOCH, OLD_EPOCH))).noted
    assert noted == (("I10 (row 4) flagged", 2),)


@pytest.mark.parametrize(
    ("result", "bug", "expected"),
    [
        (result_of(), "", Expected()),
        (result_of(violation=OLD_EPOCH), "", Expected("fail", "I10", (4,))),
        (result_of(flags=(UNEXPLAINED,)), "a_bug", Expected("fail", "I12", planted="a_bug")),
    ],
)
def test_a_runs_findings_become_its_plans_expectation(
    result: RunResult, bug: str, expected: Expected
) -> None:
    assert expected_of(find(result), bug) == expected
