"""Runs the plan of a test in the asked world, and says whether the verdict is as expected."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection
from contextlib import nullcontext
from pathlib import Path

import msgspec
import pytest

from highwater.cluster.cleaning import remove_run
from highwater.cluster.engine import connect_engine
from highwater.errors import HarnessError
from highwater.project import runs_root
from highwater.report.screen import Screen
from highwater.run_folder import TEST, RunFolder, new_run_id
from highwater.runs.judged.words import say_verdict
from highwater.runs.plans.outcome import PlanResult
from highwater.runs.plans.running import WorldName, checked, read_plan, run_in
from highwater.runs.stock.libraries import ClientKind
from highwater.testing import asked
from highwater.testing.places import place_for_cluster
from highwater.testing.verdicts import name_here, tell
from highwater_chaos.plan import Expected, Plan
from highwater_checker.run_folder.documents import PLAN
from highwater_checker.verdict import Outcome, Verdict

WRONG = pytest.StashKey[str]()
"""Of an item: why its plan's verdict fails the test."""


def run_plan_of(item: pytest.Item, chosen: Plan | Path | None) -> PlanResult:
    """Run the test's plan, tell the verdict, and note in the item if it is not the expected one.

    chosen: one of the marker's plans, where it has several.

    Raises:
        HarnessError: there is no such plan, or it cannot be run; nothing was started.
    """
    wanted = asked.asked_plan(item)
    plan = plan_of(item, wanted, chosen)
    world = WorldName(asked.world_of(item))
    client = _client(wanted)
    if world is WorldName.SIM and client is not ClientKind.OWN:
        raise HarnessError(f"clients of {client.value} are of containers: not in the world sim")
    path = runs_root() / new_run_id("test")

    def make_folder() -> RunFolder:
        folder = RunFolder(path)
        (path / TEST).write_text(name_here(item) + "\n", encoding="utf-8")
        return folder

    on_containers = world is WorldName.DOCKER
    with (
        place_for_cluster(is_worker=hasattr(item.config, "workerinput"))
        if on_containers
        else nullcontext(),
        Screen() as screen,
    ):
        keeps = bool(item.config.getoption(asked.KEEP))
        result = run_in(world, plan, make_folder, screen, client, keeps_failed=keeps)
    text = say_verdict(item.nodeid, path, result.verdict)
    wrong = why_wrong(plan.expected, result.verdict, wanted.verdict_in if wanted else None)
    if result.left_up and not wrong:
        remove_run(connect_engine(), path.name)
    elif result.left_up:
        text = "\n  ".join((text, f"{path.name} is up:", *result.left_up))
    if wrong:
        text = f"{text}\n  again: {_command(item, path, world)}"
        item.stash[WRONG] = f"{wrong}: {text}"
    tell(item.config, text)
    return result


def _client(wanted: asked.AskedPlan | None) -> ClientKind:
    name = wanted.client if wanted else ClientKind.OWN.value
    if name not in list(ClientKind):
        known = ", ".join(each.value for each in ClientKind)
        raise HarnessError(f"{asked.MARKER}: no client is called {name!r}; there are {known}")
    return ClientKind(name)


def why_wrong(
    expected: Expected | None, verdict: Verdict, verdict_in: Collection[str] | None
) -> str:
    """Return why the test fails by this verdict, "" if it does not.

    verdict_in: the verdicts that the test allows, none for any; None: what the plan expects.
    """
    outcome = verdict.outcome.value
    if verdict_in is not None:
        is_allowed = not verdict_in or outcome in verdict_in
        return "" if is_allowed else f"the verdict is not {' or '.join(sorted(verdict_in))}"
    expected = expected or Expected()
    if outcome != expected.verdict:
        return f"the verdict is not {expected.verdict}"
    found = {finding.invariant for finding in verdict.findings}
    if verdict.outcome is Outcome.FAIL and expected.invariant not in {"", *found}:
        return f"the plan expects that {expected.invariant} is violated, which it is not"
    return ""


def plan_of(item: pytest.Item, wanted: asked.AskedPlan | None, chosen: Plan | Path | None) -> Plan:
    """Return the plan with the seed that the options say.

    Raises:
        HarnessError: there is none, or more than one.
    """
    replayed, seed = item.config.getoption(asked.REPLAY), item.config.getoption(asked.SEED)
    if replayed is not None:
        count = sum(asked.RUN in getattr(each, "fixturenames", ()) for each in item.session.items)
        if count > 1:
            raise HarnessError(f"{asked.REPLAY} is for one test, name it: {count} run a plan here")
        chosen = Path(replayed)
    if chosen is None:
        chosen = _only_plan(item, wanted)
    if not isinstance(chosen, Path | Plan):
        raise HarnessError(f"{asked.MARKER} takes files and Plans, and {chosen!r} is neither")
    plan = read_plan(chosen) if isinstance(chosen, Path) else checked(chosen)
    return plan if seed is None else msgspec.structs.replace(plan, seed=seed)


def _only_plan(item: pytest.Item, wanted: asked.AskedPlan | None) -> Plan | Path:
    if wanted is None or not wanted.plans:
        raise HarnessError(f'{asked.RUN} wants @pytest.mark.{asked.MARKER}("plan.json")')
    plans = asked.plans_of(wanted, item.path.parent)
    if not plans:
        names = ", ".join(map(str, wanted.plans))
        raise HarnessError(f"no plan is called {names} in {item.path.parent}")
    return plans[0]


def _command(item: pytest.Item, folder: Path, world: WorldName) -> str:
    """Return the command, typed where pytest was, that runs the test with this run's plan."""
    words = ["pytest", name_here(item), asked.REPLAY, os.path.relpath(folder / PLAN.name)]
    words += [asked.WORLD, asked.SIM] if world is WorldName.SIM else []
    return shlex.join(words)
