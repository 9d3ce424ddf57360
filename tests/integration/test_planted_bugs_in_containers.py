"""Known mistakes in the nodes' images: each is caught by the check named for it, and a run without
one passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.chaos_runs.planted_plans import CONTROLS, PLANTED_PLANS, Circumstances, PlantedPlan
from highwater.planned.in_containers import run_in_containers
from highwater.run_folder import RunFolder, new_run_id
from highwater.screen import Screen
from highwater_chaos.plan import Plan
from highwater_checker.verdict import Outcome, Verdict

pytestmark = pytest.mark.docker


def run(plan: Plan, folder: Path) -> Verdict:
    with Screen() as screen:
        return run_in_containers(plan, RunFolder(folder / new_run_id("plan")), screen).verdict


def broken(verdict: Verdict) -> set[str]:
    """Return the invariants that the verdict's findings name."""
    return {finding.invariant for check in verdict.checks for finding in check.findings}


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.title)
def test_without_a_bug_the_run_passes(control: Circumstances, tmp_path: Path) -> None:
    verdict = run(control.plan(), tmp_path)
    assert verdict.outcome is Outcome.PASS, verdict.reasons


@pytest.mark.parametrize("planted", PLANTED_PLANS, ids=lambda planted: planted.bug)
def test_each_planted_bug_is_caught_by_the_check_named_for_it(
    planted: PlantedPlan, tmp_path: Path
) -> None:
    verdict = run(planted.plan(), tmp_path)
    assert verdict.outcome is Outcome.FAIL, verdict.reasons
    assert planted.invariant in broken(verdict)
