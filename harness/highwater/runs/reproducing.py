"""Runs the plan of a finished run again, and says whether the same comes of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from highwater.checkout import commit_here
from highwater.errors import HarnessError
from highwater.runs.plans.outcome import PlanResult
from highwater.runs.plans.running import WorldName, read_plan
from highwater.runs.stock.libraries import ClientKind
from highwater_chaos.plan import Plan
from highwater_checker.judging import judge_run
from highwater_checker.run_folder.documents import BUILD, PLAN, BadDocument
from highwater_checker.verdict import Outcome, Verdict

TEST = "test.txt"
"""The name of the test, in the folder of a test's cluster."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished run: its plan, world and clients, and the verdict of its files.

    commit: of the code that ran; "" where it is not known.
    """

    plan: Plan
    world: WorldName
    client: ClientKind
    commit: str
    verdict: Verdict

    @property
    def invariants(self) -> tuple[str, ...]:
        """The violated invariants, each once, in the order of the findings."""
        return invariants_of(self.verdict)


def read_finished(folder: Path) -> Finished:
    """Return the run of the folder.

    Raises:
        HarnessError: it has no plan, or its build.json cannot be read.
    """
    if not (folder / PLAN.name).exists():
        raise HarnessError(_without_plan(folder))
    plan = read_plan(folder / PLAN.name)
    try:
        build = BUILD.read(folder)
    except BadDocument as error:
        raise HarnessError(str(error)) from error
    world = WorldName.SIM if build is None else WorldName.DOCKER
    named = "" if build is None else build.client
    client = ClientKind(named) if named in set(ClientKind) else ClientKind.OWN
    commit = plan.commit if build is None else build.commit
    return Finished(plan, world, client, commit, judge_run(folder))


def notes(finished: Finished, world: WorldName) -> Iterator[str]:
    """Yield what is unlike the finished run from the start."""
    here = commit_here()
    if finished.commit and here and finished.commit != here:
        yield f"that run was of commit {finished.commit}, this is {here}"
    if world is not finished.world:
        yield f"that run was in the world {finished.world.value}, this is in {world.value}"


def is_again(finished: Finished, result: PlanResult) -> bool:
    """Return whether a run fails by an invariant that the finished run violated, too."""
    if result.verdict.outcome is not Outcome.FAIL:
        return False
    return bool({*finished.invariants} & {*invariants_of(result.verdict)})


def sum_up(finished: Finished, results: Sequence[PlanResult]) -> str:
    """Return how often the finished run's violation came again, in one sentence."""
    counts = Counter(result.verdict.outcome for result in results)
    told = ", ".join(f"{counts[each]} {each.value}" for each in Outcome if counts[each])
    if not finished.invariants:
        return f"of {len(results)}: {told}; that run was {finished.verdict.outcome.value}"
    again = sum(is_again(finished, result) for result in results)
    return f"{' or '.join(finished.invariants)} came again in {again} of {len(results)}: {told}"


def invariants_of(verdict: Verdict) -> tuple[str, ...]:
    return tuple(dict.fromkeys(finding.invariant for finding in verdict.findings))


def _without_plan(folder: Path) -> str:
    test = folder / TEST
    if test.exists():
        name = test.read_text(encoding="utf-8", errors="replace").strip()
        return f"{folder} is of a test's cluster, which has no plan: run the test again: {name}"
    return f"{folder} has no {PLAN.name}: it is no run of a plan"
