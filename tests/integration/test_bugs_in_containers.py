"""Historical bugs on containers: each plan shows its row, and passes with every fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.bugs.in_containers import PLANS, evidence_of, plan_of
from highwater.bugs.kept import bug_of
from highwater_chaos.fixed import with_every_fix
from highwater_checker.verdict import Outcome
from tests.integration.plan_runs import TRIES, run_plan

pytestmark = [pytest.mark.docker, pytest.mark.full]


@pytest.mark.parametrize("number", sorted(PLANS))
def test_a_bug_shows_on_containers_and_not_with_every_fix(number: int, tmp_path: Path) -> None:
    bug = bug_of(str(number))
    plan = plan_of(bug)
    for _ in range(TRIES):  # which of two brokers is quicker is not the plan's to say
        shown = run_plan(plan, tmp_path, tries=1)
        if how := evidence_of(bug.row, shown.verdict, shown.folder):
            break
    assert how, f"{shown.folder}: {shown.verdict.reasons}"
    mended = run_plan(with_every_fix(plan), tmp_path)
    assert mended.verdict.outcome is Outcome.PASS, f"{mended.folder}: {mended.verdict.reasons}"
