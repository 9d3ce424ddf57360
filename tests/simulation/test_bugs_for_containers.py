"""The plans that show bugs on containers: in the simulator they show the same, and are mended."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.bugs.in_containers import (
    FOLDER,
    PLANS,
    WHY_NOT,
    NotInContainers,
    evidence_of,
    plan_of,
)
from highwater.bugs.kept import SHOWN_IN, Bug, all_bugs, bug_of
from highwater.project import project_root
from highwater.report.screen import Screen
from highwater.run_folder import RunFolder
from highwater.runs.plans.in_simulator import run_in_simulator
from highwater.runs.plans.translation import unsupported
from highwater_chaos.fixed import with_every_fix
from highwater_chaos.plan import Plan
from highwater_checker.requirements import PLAYED_TO_ITS_END
from highwater_checker.verdict import Outcome, Requirement, Verdict
from highwater_simulator.runner import run_plan
from highwater_simulator.search import bug_or_none, find

ROWS = sorted(PLANS)
UNKNOWN_TO_THE_END = Requirement(PLAYED_TO_ITS_END, False, "not within 15 s: a full ISR of t")


def simulated(plan: Plan, folder: Path) -> tuple[Verdict, Path]:
    with Screen() as screen:
        result = run_in_simulator(plan, RunFolder(folder), screen)
    return result.verdict, result.folder


def test_every_row_with_a_plan_for_virtual_time_has_one_for_containers_or_says_why_not() -> None:
    assert {*PLANS, *WHY_NOT} == {*SHOWN_IN}
    assert not {*PLANS} & {*WHY_NOT}
    kept = {f"bugs/{path.stem}" for path in (project_root() / FOLDER / "bugs").glob("*.json")}
    assert {name for name in PLANS.values() if name.startswith("bugs/")} == kept


@pytest.mark.parametrize("bug", all_bugs(), ids=lambda bug: bug.name)
def test_a_row_without_a_plan_for_containers_is_refused_with_its_reason(bug: Bug) -> None:
    if bug.row.number in PLANS:
        assert plan_of(bug).title
        return
    with pytest.raises(NotInContainers) as refused:
        plan_of(bug)
    assert str(refused.value).endswith(WHY_NOT.get(bug.row.number, bug.row.why_not_here))


@pytest.mark.parametrize("number", ROWS)
def test_a_plan_for_containers_shows_its_row_in_virtual_time_and_passes_with_every_fix(
    number: int,
) -> None:
    bug = bug_of(str(number))
    plan = plan_of(bug)
    assert unsupported(plan) == unsupported(with_every_fix(plan)) == []
    with bug_or_none(plan.planted):
        result = run_plan(plan)
    found = find(result)
    assert found is not None
    shown = found.violation
    assert plan.expected is not None
    assert shown.invariant == plan.expected.invariant
    assert shown.invariant in bug.row.invariants
    assert bug.row.trigger is not None
    at = shown.topic, shown.partition, shown.offset
    assert bug.row.trigger(result.trace.events(), *at), shown
    mended = find(run_plan(with_every_fix(plan)))
    assert mended is None or mended.violation is None, mended


def test_a_violation_shows_a_bug_where_its_trigger_is_in_the_trace(tmp_path: Path) -> None:
    bug = bug_of("KAFKA-6361")
    plan = plan_of(bug)
    verdict, folder = simulated(plan, tmp_path / "bug")
    assert evidence_of(bug.row, verdict, folder).startswith("I3 violated: broker 0, whose last")
    assert evidence_of(bug_of("KAFKA-13972").row, verdict, folder) == "", "another row's trigger"
    verdict, folder = simulated(with_every_fix(plan), tmp_path / "mended")
    assert evidence_of(bug.row, verdict, folder) == ""


def test_a_cluster_that_does_not_come_to_rest_shows_a_bug_that_costs_progress(
    tmp_path: Path,
) -> None:
    bug = bug_of("KAFKA-4443")
    _, folder = simulated(plan_of(bug), tmp_path / "bug")
    few = Requirement("at least 70 records were acknowledged", False, "41")
    stands_still = Verdict(Outcome.UNKNOWN, (), (UNKNOWN_TO_THE_END, few))
    told = evidence_of(bug.row, stands_still, folder)
    assert told.startswith("the cluster did not come to rest: broker 0 gave up on a LeaderAndIsr")
    missed = Requirement("done: kill", False, "missed")
    for verdict in (
        Verdict(Outcome.PASS, (), ()),
        Verdict(Outcome.UNKNOWN, (), (UNKNOWN_TO_THE_END, missed)),
    ):
        assert evidence_of(bug.row, verdict, folder) == ""
    assert evidence_of(bug_of("KAFKA-6361").row, stands_still, folder) == "", "it costs no progress"
