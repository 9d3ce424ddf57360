"""The result of a plan's run, in either world: verdict, picture and report."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from highwater.checkout import commit_here
from highwater.report.failover import Gap
from highwater.report.page import Again, write_report
from highwater.report.picture import Fault, RunPicture, draw
from highwater.run_folder import RunFolder
from highwater.runs.plans.leader_changes import LeaderChange
from highwater_chaos.plan import Plan, encode_plan
from highwater_checker.judging import judge_evidence
from highwater_checker.run_folder.documents import (
    BUILD,
    FILES,
    PLAN,
    PROMISES,
    VERDICT,
    Promises,
)
from highwater_checker.run_folder.evidence import read_evidence
from highwater_checker.run_folder.evidence_files import written_files
from highwater_checker.verdict import Verdict
from highwater_core.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class PlanResult:
    """How a plan's run ended.

    notes: differences between the plan and its run.
    steps: each one's outcome, in the plan's order.
    gaps: for each partition that lost its leader, the time without an acknowledgement.
    """

    folder: Path
    verdict: Verdict
    notes: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    gaps: tuple[Gap, ...] = ()
    in_virtual_time: bool = False


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
    marks: Sequence[Fault],
    changes: Sequence[LeaderChange],
    notes: tuple[str, ...],
    steps: tuple[str, ...],
) -> PlanResult:
    """Judge the run from its folder, and write the verdict, the picture and the report.

    marks: faults and their times.
    """
    list_evidence(folder)
    evidence = read_evidence(folder.path)
    verdict = judge_evidence(evidence)
    acknowledged = evidence.sends.acknowledged
    gaps = tuple(gap for each in changes if (gap := each.gap(acknowledged)) is not None)
    where = "in virtual time" if in_virtual_time else "on containers"
    preset = plan.topology.preset.value
    draw(
        RunPicture(
            title=f"Highwater {folder.run_id}, preset {preset}, {where}: {verdict.outcome.value}",
            topic_partition=TopicPartition(plan.workload.topics[0].name, 0),
            looks=evidence.looks,
            acknowledged=acknowledged,
            faults=marks,
            gaps=gaps,
        ),
        folder.path / "run.png",
    )
    folder.write(VERDICT, verdict)
    write_report(folder, verdict, gaps, marks, evidence, _again(folder, plan, in_virtual_time))
    left_out = (f"nothing to examine: {each}" for each in verdict.idle)
    told = (*notes, *left_out)
    return PlanResult(folder.path, verdict, told, steps, gaps, in_virtual_time)


def _again(folder: RunFolder, plan: Plan, in_virtual_time: bool) -> Again:
    build = BUILD.read(folder.path)
    return Again(
        folder=shlex.quote(str(folder.path)),
        is_virtual=in_virtual_time,
        seed=plan.seed,
        preset=plan.topology.preset.value,
        planted=plan.planted,
        commit=commit_here() if build is None else build.commit,
    )
