"""Runs plans in containers for tests."""

from __future__ import annotations

from pathlib import Path

from highwater.report.screen import Screen
from highwater.run_folder import RunFolder, new_run_id
from highwater.runs.chaos.repeating import until_known
from highwater.runs.plans.in_containers import run_in_containers
from highwater.runs.plans.outcome import PlanResult
from highwater.runs.stock.libraries import ClientKind
from highwater_chaos.plan import Plan

TRIES = 2


def run_plan(
    plan: Plan, folder: Path, *, client: ClientKind = ClientKind.OWN, tries: int = TRIES
) -> PlanResult:
    """Run it; again if the first run proves nothing, as `highwater run --tries` does.

    On a machine that is busy with other tests too a fault may not be proven in its time. A run
    that fails, and a second one that proves nothing, are the test's result.
    """
    with Screen() as screen:
        return until_known(
            tries,
            lambda: run_in_containers(plan, RunFolder(folder / new_run_id("plan")), screen, client),
            screen.say,
        )
