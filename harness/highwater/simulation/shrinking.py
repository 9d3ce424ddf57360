"""Shrinks a failing plan, and makes scenario files of plans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from highwater.errors import HarnessError
from highwater.simulation.replaying import NoSuchPlan
from highwater.simulation.searching import check_bug
from highwater_chaos.plan import Expected, Plan, encode_plan
from highwater_checker.verdict import Outcome
from highwater_simulator.runner import RunResult, run_plan
from highwater_simulator.search import bug_or_none, find
from highwater_simulator.shrink import (
    DoesNotFail,
    OnProgress,
    Shrunk,
    Signature,
    shrink,
    signature_of,
)


class NotAScenario(HarnessError):
    """A plan's run is no story for a scenario file; the message says why."""


@dataclass(frozen=True, slots=True)
class ShrinkReport:
    """A shrinking for machines. words: what the minimal plan does and breaks."""

    plan: Path
    is_minimal: bool
    runs: int
    invariant: str
    rows: tuple[int, ...]
    words: str


def rows_of(result: RunResult) -> tuple[int, ...]:
    """Return the catalogue rows that explain the run's violation."""
    found = find(result)
    return () if found is None else found.rows


def shrink_plan(plan: Plan, bug: str, max_runs: int, on_progress: OnProgress) -> Shrunk:
    """Return what is left of the plan, with the run's verdict as what it is expected to show.

    Raises:
        NoSuchBug: there is no planted bug of that name.
        NoSuchPlan: the plan does not fail.
    """
    check_bug(bug)
    try:
        with bug_or_none(bug):
            shrunk = shrink(plan, explain=rows_of, max_runs=max_runs, on_progress=on_progress)
    except DoesNotFail as error:
        raise NoSuchPlan(str(error)) from error
    signature = shrunk.signature
    named = replace(
        shrunk.plan,
        title=f"{signature.invariant}, shrunk from {plan.title or f'seed {plan.seed}'}",
        expected=_expected(signature, bug),
    )
    return Shrunk(
        named,
        shrunk.result,
        signature,
        shrunk.runs,
        shrunk.before,
        shrunk.after,
        shrunk.is_minimal,
    )


def write_plan_file(plan: Plan, path: Path) -> None:
    """Write what differs from a plan's defaults, for readers."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode_plan(plan, omit_defaults=True))


def make_scenario(plan: Plan, title: str, bug: str) -> Plan:
    """Run the plan, and return it with what the run showed as what it must show.

    Raises:
        NoSuchBug: there is no planted bug of that name.
        NotAScenario: a step of it did nothing.
    """
    check_bug(bug)
    with bug_or_none(bug):
        result = run_plan(plan)
    idle = [step.describe() for step in plan.steps if step not in result.outcome.fired]
    if idle:
        raise NotAScenario(f"a scenario's steps must all be done; not done: {'; '.join(idle)}")
    signature = signature_of(result, rows_of)
    return replace(plan, title=title or plan.title, expected=_expected(signature, bug))


def bug_of(plan: Plan, bug: str) -> str:
    """Return the planted bug that is asked for, or else the one that the plan itself names."""
    return bug or ("" if plan.expected is None else plan.expected.planted)


def _expected(signature: Signature | None, bug: str) -> Expected:
    if signature is None:
        return Expected(Outcome.PASS.value, planted=bug)
    return Expected(Outcome.FAIL.value, signature.invariant, signature.rows, bug)


Said = Callable[[str], None]


def commands_for(path: Path, bug: str) -> Sequence[str]:
    """Return how the plan file is run again."""
    planted = f" --planted {bug}" if bug else ""
    return (f"highwater sim replay {path}{planted}", f"highwater run --plan {path}")
