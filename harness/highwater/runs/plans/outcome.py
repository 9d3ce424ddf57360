"""What a run of a plan comes to, in either world, and the plan's own file in its folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from highwater.report.failover import Gap
from highwater.run_folder import RunFolder
from highwater_chaos.plan import Plan, encode_plan
from highwater_checker.run_folder import names
from highwater_checker.verdict import Verdict


@dataclass(frozen=True, slots=True)
class PlanResult:
    """How a plan's run ended.

    notes: in what the run was not the plan's.
    steps: how each went, in the plan's order.
    gaps: of each partition whose leader was taken out, its time without an acknowledgement.
    """

    folder: Path
    verdict: Verdict
    notes: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    gaps: tuple[Gap, ...] = ()


def write_plan(folder: RunFolder, plan: Plan) -> None:
    folder.write_bytes(names.PLAN, encode_plan(plan))
