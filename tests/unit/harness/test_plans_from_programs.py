"""run_plan refuses a program's plan that no world can run, as it refuses such a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater import Plan, WorldName, run_plan
from highwater.errors import HarnessError
from highwater_chaos.faults import FailFolder
from highwater_chaos.plan import PlanTopology, Step


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (Plan(1, topology=PlanTopology(log_folders_per_broker=0)), "1 to 16 log folders"),
        (Plan(1, topology=PlanTopology(log_folders_per_broker=17)), "1 to 16 log folders"),
        (
            Plan(
                1,
                topology=PlanTopology(log_folders_per_broker=2),
                steps=(Step(100, FailFolder("broker-1", folder=2)),),
            ),
            "no log folder 2: they are numbered 0 to 1",
        ),
    ],
)
def test_a_plan_that_is_possible_in_no_world_is_refused_before_a_folder_is_made(
    plan: Plan, why: str, tmp_path: Path
) -> None:
    """Found: a folder's number out of range ended the run with a traceback, and 0 folders ran."""
    with pytest.raises(HarnessError, match=why):
        run_plan(plan, tmp_path / "run", world=WorldName.SIM)
    assert not (tmp_path / "run").exists()
