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
    """Run the plan; again after a run with an unknown verdict, as `highwater run --tries` does.

    On a busy machine a fault may not be proven in its time. The result is that of a run that
    passes or fails, or of the last one.
    """
    return until_known(
        tries,
        lambda: highwater.run_plan(plan, folder / new_run_id("plan"), client=client),
        print,
    )
