"""Historical bugs on containers: each plan shows its row, and passes with every fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.bugs.in_containers import PLANS, evidence_of, plan_of
from highwater.bugs.kept import bug_of
from highwater_chaos.fixed import with_every_fix
from highwater_checker.run_folder.documents import STEPS
from highwater_checker.verdict import Outcome
from tests.integration.plan_runs import TRIES, run_plan

LATE_MS = 1_000
"""A busy machine's steps come so late: such a run need not show what rests on their distances."""
MOST_RUNS = 5

pytestmark = [pytest.mark.docker, pytest.mark.full]


@pytest.mark.parametrize("number", sorted(PLANS))
def test_a_bug_shows_on_containers_and_not_with_every_fix(number: int, tmp_path: Path) -> None:
    bug = bug_of(str(number))
    plan = plan_of(bug)
    in_time = 0
    for _ in range(MOST_RUNS):
        shown = run_plan(plan, tmp_path, tries=1)
        how = evidence_of(bug.row, shown.verdict, shown.folder)
        in_time += was_in_time(shown.folder)
        if how or in_time == TRIES:  # which of two brokers is quicker is not the plan's to say
            break
    assert how, f"{shown.folder}: {shown.verdict.reasons}"
    mended = run_plan(with_every_fix(plan), tmp_path)
    assert mended.verdict.outcome is Outcome.PASS, f"{mended.folder}: {mended.verdict.reasons}"


def was_in_time(folder: Path) -> bool:
    """Return whether all steps of the run came in time."""
    return all((step.drift_ms or 0) < LATE_MS for step in STEPS.read(folder) or ())
