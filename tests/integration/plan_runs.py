"""Runs plans in containers for tests."""

from __future__ import annotations

from pathlib import Path

import highwater
from highwater import ClientKind, Plan, PlanResult
from highwater.run_folder import new_run_id
from highwater.runs.chaos.repeating import until_known

TRIES = 2


def run_plan(
    plan: Plan, folder: Path, *, client: ClientKind = ClientKind.OWN, tries: int = TRIES
) -> PlanResult:
    """Run it; again if the first run proves nothing, as `highwater run --tries` does.

    On a machine that is busy with other tests too a fault may not be proven in its time. A run
    that fails, and a second one that proves nothing, are the test's result.
    """
    return until_known(
        tries,
        lambda: highwater.run_plan(plan, folder / new_run_id("plan"), client=client),
        print,
    )
