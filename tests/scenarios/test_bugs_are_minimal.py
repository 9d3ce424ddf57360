"""A bug's plan holds nothing that its bug does without: each step, toggle and setting is needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import pytest
from msgspec.structs import replace

from highwater.bugs.kept import all_bugs, bug_of
from highwater_chaos.plan import Plan, problems_of
from highwater_chaos.words import say_step
from highwater_checker.catalogue.rows import Row
from highwater_core.config import PRESETS, Preset
from highwater_simulator.runner import run_plan
from highwater_simulator.search import bug_or_none, find

SHOWN = [bug.name for bug in all_bugs() if bug.scenario]
FIXED = asdict(PRESETS[Preset.FENCED])
BY_NAME = ("toggles", "broker_settings", "controller_settings")


def shows(plan: Plan, row: Row) -> bool:
    """Return whether the plan's run violates what it expects, by the row."""
    expected = plan.expected
    if expected is None or problems_of(plan):
        return False
    with bug_or_none(plan.planted):
        result = run_plan(plan)
    found = find(result)
    if found is None or found.violation.invariant != expected.invariant:
        return False
    at = (found.violation.topic, found.violation.partition, found.violation.offset)
    is_triggered = row.trigger is None or row.trigger(result.trace.events(), *at) is not None
    return is_triggered and set(expected.rows) <= set(found.rows)


def plans_with_less(plan: Plan) -> Iterator[tuple[str, Plan]]:
    """Yield the plan without each of its steps, toggles and settings, and what is left out.

    A toggle with the value of preset fenced stays: it keeps another bug out of the run.
    """
    for number, step in enumerate(plan.steps):
        steps = plan.steps[:number] + plan.steps[number + 1 :]
        yield f"step {number + 1}, {say_step(step)}", replace(plan, steps=steps)
    for kind in BY_NAME:
        values = getattr(plan.topology, kind)
        for name in values:
            if kind == "toggles" and values[name] == FIXED[name]:
                continue
            left = {each: value for each, value in values.items() if each != name}
            yield f"{kind}: {name}", replace(plan, topology=replace(plan.topology, **{kind: left}))


@pytest.mark.parametrize("name", SHOWN)
def test_a_bug_shows_with_nothing_less_than_its_plan(name: str) -> None:
    bug = bug_of(name)
    plan = bug.plan()
    assert shows(plan, bug.row)
    assert [what for what, less in plans_with_less(plan) if shows(less, bug.row)] == []
