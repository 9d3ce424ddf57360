"""Every plan in this folder, run in the simulator: each must show what it says it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater_chaos.plan import Expected, decode_plan, encode_plan
from highwater_chaos.words import say_step
from highwater_simulator.runner import run_plan
from highwater_simulator.search import bug_or_none, find

SCENARIOS = sorted(Path(__file__).parent.glob("*.json"))
TWIN = "_fenced"


def test_there_are_scenarios() -> None:
    assert len(SCENARIOS) >= 8


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario_shows_what_it_expects(path: Path) -> None:
    plan = decode_plan(path.read_bytes(), path)
    expected = plan.expected
    assert expected is not None, "a scenario says what it must show"
    with bug_or_none(expected.planted):
        result = run_plan(plan)
    found = find(result)
    shown = ("pass", "") if found is None else ("fail", found.violation.invariant)
    assert shown == (expected.verdict, expected.invariant), f"{plan.title}\n{result.violation}"
    if found is not None:
        assert set(expected.rows) <= set(found.rows)
    idle = [say_step(step) for step in plan.steps if step not in result.outcome.fired]
    assert idle == []


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario_file_holds_what_differs_from_the_defaults(path: Path) -> None:
    text = path.read_bytes()
    plan = decode_plan(text, path)
    assert plan.title
    assert text == encode_plan(plan, omit_defaults=True)


def test_each_failing_scenario_has_a_twin_that_passes_with_every_fix() -> None:
    plans = {path.stem: decode_plan(path.read_bytes(), path) for path in SCENARIOS}
    failing = {
        name: plan
        for name, plan in plans.items()
        if plan.expected is not None and plan.expected.verdict == "fail"
    }
    assert failing
    for name, plan in failing.items():
        twin = plans[f"{name}{TWIN}"]
        assert twin.expected == Expected("pass")
        assert twin.topology.preset == "fenced"
        assert twin.topology.toggles == {}
        told = ("steps", "workload", "quiet_after_ms", "core", "probes_shrinking")
        assert [getattr(twin, name) for name in told] == [getattr(plan, name) for name in told]
