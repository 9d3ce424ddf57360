"""The result of a plan's run, in either world: verdict, picture and report."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from highwater.report.failover import Gap
from highwater.run_folder import RunFolder
from highwater.runs.plans.rates import slower_than_planned
from highwater.runs.reporting import write_pages
from highwater_chaos.plan import Plan, encode_plan
from highwater_checker.judging import judge_evidence
from highwater_checker.run_folder.documents import (
    FILES,
    PLAN,
    PROMISES,
    VERDICT,
    Promises,
)
from highwater_checker.run_folder.evidence import read_evidence
from highwater_checker.run_folder.evidence_files import written_files
from highwater_checker.verdict import Verdict


@dataclass(frozen=True, slots=True)
class PlanResult:
    """How a plan's run ended.

    notes: differences between the plan and its run, such as a producer below its rate.
    steps: each one's outcome, in the plan's order.
    gaps: for each partition that lost its leader, the time without an acknowledgement.
    left_up: how to look into its cluster and remove it, a line each; empty where it was removed.
    """

    folder: Path
    verdict: Verdict
    notes: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    gaps: tuple[Gap, ...] = ()
    in_virtual_time: bool = False
    left_up: tuple[str, ...] = ()


def write_plan(folder: RunFolder, plan: Plan) -> None:
    folder.write(PLAN, msgspec.Raw(encode_plan(plan)))


def list_evidence(folder: RunFolder) -> None:
    """Promise a list of the run's files, to which no more is added, and write it."""
    promises = PROMISES.read(folder.path) or Promises()
    folder.write(PROMISES, replace(promises, kept=(*promises.kept, FILES.name)))
    folder.write(FILES, written_files(folder.path))


def conclude(
    folder: RunFolder,
    plan: Plan,
    in_virtual_time: bool,
    notes: tuple[str, ...],
    steps: tuple[str, ...],
) -> PlanResult:
    """Judge the run from its folder, and write the verdict, the picture and the report."""
    list_evidence(folder)
    evidence = read_evidence(folder.path)
    verdict = judge_evidence(evidence)
    folder.write(VERDICT, verdict)
    gaps = write_pages(folder, evidence, verdict)
    left_out = (f"nothing to examine: {each}" for each in verdict.idle)
    told = (*notes, *slower_than_planned(plan, evidence.histories), *left_out)
    return PlanResult(folder.path, verdict, told, steps, gaps, in_virtual_time)
