"""Planted bugs in the nodes' images: each is caught by the check that is named for it, and a run
without a planted bug passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.runs.chaos.planted_plans import CONTROLS, PLANTED_PLANS, Circumstances, PlantedPlan
from highwater_checker.verdict import Outcome, Verdict
from tests.integration.plan_runs import run_plan

pytestmark = pytest.mark.docker

ALWAYS = ("acknowledged_on_append",)
"""Lost records; the other bugs run in the full matrix only."""


def unless(is_always: bool) -> tuple[pytest.MarkDecorator, ...]:
    return () if is_always else (pytest.mark.full,)


def broken(verdict: Verdict) -> set[str]:
    """Return the invariants that the verdict's findings name."""
    return {finding.invariant for check in verdict.checks for finding in check.findings}


@pytest.mark.parametrize(
    "control",
    [pytest.param(control, id=control.title, marks=pytest.mark.full) for control in CONTROLS],
)
def test_without_a_bug_the_run_passes(control: Circumstances, tmp_path: Path) -> None:
    verdict = run_plan(control.plan(), tmp_path).verdict
    assert verdict.outcome is Outcome.PASS, verdict.reasons


@pytest.mark.parametrize(
    "planted",
    [
        pytest.param(planted, id=planted.bug, marks=unless(planted.bug in ALWAYS))
        for planted in PLANTED_PLANS
    ],
)
def test_each_planted_bug_is_caught_by_the_check_named_for_it(
    planted: PlantedPlan, tmp_path: Path
) -> None:
    verdict = run_plan(planted.plan(), tmp_path).verdict
    assert verdict.outcome is Outcome.FAIL, verdict.reasons
    assert planted.invariant in broken(verdict)
