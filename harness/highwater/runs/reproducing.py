"""Runs the plan of a finished run again, and says whether the same comes of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from highwater.checkout import commit_here
from highwater.errors import HarnessError
from highwater.run_folder import name_of_test
from highwater.runs.plans.outcome import PlanResult
from highwater.runs.plans.running import WorldName, read_plan
from highwater.runs.stock.libraries import ClientKind
from highwater_chaos.plan import Plan
from highwater_checker.judging import judge_run
from highwater_checker.run_folder.documents import BUILD, PLAN, ZNODES, BadDocument
from highwater_checker.verdict import Outcome, Verdict


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished run: its plan, world and clients, and the verdict of its files.

    commit: of the code that ran; "" where it is not known.
    guessed: what its files do not say, and is taken to be so.
    """

    plan: Plan
    world: WorldName
    client: ClientKind
    commit: str
    verdict: Verdict
    guessed: tuple[str, ...] = ()

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
    verdict = judge_run(folder)
    if build is None:
        world, guessed = _world_of(folder)
        return Finished(plan, world, ClientKind.OWN, "", verdict, guessed)
    if build.is_simulated:
        return Finished(plan, WorldName.SIM, ClientKind.OWN, build.commit, verdict)
    known = build.client in set(ClientKind)
    client = ClientKind(build.client) if known else ClientKind.OWN
    guessed = () if known else (f"that run does not say its clients: {client.value} ones are used",)
    return Finished(plan, WorldName.DOCKER, client, build.commit, verdict, guessed)


def _world_of(folder: Path) -> tuple[WorldName, tuple[str, ...]]:
    """Return the world of a run without build.json, and a note where that is a guess."""
    if (folder / ZNODES.name).exists():
        why = f"that run has no {BUILD.name}: by its {ZNODES.name} it was on containers"
        return WorldName.DOCKER, (why,)
    return WorldName.SIM, ()


def notes(finished: Finished, world: WorldName) -> Iterator[str]:
    """Yield what is unlike the finished run from the start."""
    yield from finished.guessed
    here = commit_here()
    if finished.commit and here and finished.commit != here:
        yield f"that run was of commit {finished.commit}, this is {here}"
    kept_at = "" if finished.commit else finished.plan.commit
    if kept_at and here and kept_at != here:
        yield f"its plan was kept at commit {kept_at}, this is {here}"
    if world is not finished.world:
        yield f"that run was in the world {finished.world.value}, this is in {world.value}"


def is_again(finished: Finished, result: PlanResult) -> bool:
    """Return whether a run fails by an invariant that the finished run violated, too."""
    if result.verdict.outcome is not Outcome.FAIL:
        return False
    return bool({*finished.invariants} & {*invariants_of(result.verdict)})


def sum_up(finished: Finished, results: Sequence[PlanResult], not_done: int = 0) -> str:
    """Return how often the finished run's violation came again, in one sentence.

    not_done: how many runs could not be done.
    """
    counts = Counter(result.verdict.outcome for result in results)
    told = [f"{counts[each]} {each.value}" for each in Outcome if counts[each]]
    told += [f"{not_done} could not be done"] if not_done else []
    times = len(results) + not_done
    if not finished.invariants:
        return f"of {times}: {', '.join(told)}; that run was {finished.verdict.outcome.value}"
    again = sum(is_again(finished, result) for result in results)
    return f"{' or '.join(finished.invariants)} came again in {again} of {times}: {', '.join(told)}"


def invariants_of(verdict: Verdict) -> tuple[str, ...]:
    return tuple(dict.fromkeys(finding.invariant for finding in verdict.findings))


def _without_plan(folder: Path) -> str:
    if name := name_of_test(folder):
        return f"{folder} is of a test's cluster, which has no plan: run the test again: {name}"
    return f"{folder} has no {PLAN.name}: it is no run of a plan"
