"""Shrinks a failing plan."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from highwater.checkout import commit_here
from highwater.search.judging import expected_of
from highwater.search.plans import NoSuchPlan
from highwater.search.planting import bug_of
from highwater_chaos.plan import Plan, encode_plan
from highwater_simulator.runner import RunResult, run_plan
from highwater_simulator.search import bug_or_none, find
from highwater_simulator.shrink import DoesNotFail, OnProgress, Shrunk, shrink


@dataclass(frozen=True, slots=True)
class ShrinkReport:
    """A shrinking for machines. words: the minimal plan and its violation in words."""

    plan: Path
    is_minimal: bool
    was_interrupted: bool
    runs: int
    invariant: str
    rows: tuple[int, ...]
    words: str


def rows_of(result: RunResult) -> tuple[int, ...]:
    """Return the catalogue rows that explain the run's violation."""
    found = find(result)
    return () if found is None else found.rows


def shrink_plan(plan: Plan, bug: str, max_runs: int, on_progress: OnProgress) -> Shrunk:
    """Return the smallest plan found, with the commit and the expected violation.

    bug: the planted bug; "" is the one that the plan itself names, or none.

    Raises:
        NoSuchBug, PlantsNothing: the plan's nodes cannot have the planted bug.
        NoSuchPlan: the plan does not fail.
    """
    planted = bug_of(plan, bug)
    commit = commit_here()  # before the work: the code that was loaded
    try:
        with bug_or_none(planted):
            shrunk = shrink(
                plan, run=_run, explain=rows_of, max_runs=max_runs, on_progress=on_progress
            )
    except DoesNotFail as error:
        raise NoSuchPlan(str(error)) from error
    named = replace(
        shrunk.plan,
        title=f"{shrunk.signature.invariant}, shrunk from {plan.title or f'seed {plan.seed}'}",
        commit=commit,
        expected=expected_of(find(shrunk.result), planted),
    )
    return dataclasses.replace(shrunk, plan=named)


def _run(plan: Plan) -> RunResult:
    """Run the plan; a flagged observation that no row explains counts as its violation."""
    result = run_plan(plan)
    found = find(result)
    return result if found is None else dataclasses.replace(result, violation=found.violation)


def write_plan_file(plan: Plan, path: Path) -> None:
    """Write the plan's file for readers, without fields that have their defaults."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode_plan(plan, omit_defaults=True))


def command_for(path: Path) -> str:
    """Return the command that runs the plan file again; the file names its planted bug."""
    return f"highwater run {path} --events"
