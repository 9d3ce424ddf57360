"""Every plan in this folder, run in the simulator: each must show what it says it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater_chaos.fixed import with_every_fix
from highwater_chaos.plan import decode_plan, encode_plan
from highwater_chaos.words import say_step
from highwater_simulator.runner import RunResult, run_plan
from highwater_simulator.search import bug_or_none, find

SCENARIOS = sorted(Path(__file__).parent.glob("*.json"))


def fails(path: Path) -> bool:
    expected = decode_plan(path.read_bytes(), path).expected
    return expected is not None and expected.verdict == "fail"


FAILING = [path for path in SCENARIOS if fails(path)]


def idle_steps(result: RunResult) -> list[str]:
    """Return the plan's steps that were not done, in words."""
    return [say_step(step) for step in result.plan.steps if step not in result.outcome.fired]


def test_there_are_scenarios() -> None:
    assert len(SCENARIOS) >= 8
    assert len(FAILING) >= 8


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
    assert idle_steps(result) == []


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario_file_holds_what_differs_from_the_defaults(path: Path) -> None:
    text = path.read_bytes()
    plan = decode_plan(text, path)
    assert plan.title
    assert text == encode_plan(plan, omit_defaults=True)


@pytest.mark.parametrize("path", FAILING, ids=lambda path: path.stem)
def test_a_scenario_that_fails_passes_with_every_fix(path: Path) -> None:
    plan = decode_plan(path.read_bytes(), path)
    assert plan.expected is not None
    assert plan.expected.with_every_fix, "a scenario that fails says what its fix does"
    assert plan.expected.with_every_fix != plan.title, "its fix does something else"
    result = run_plan(with_every_fix(plan))
    assert find(result) is None, result.violation
    assert idle_steps(result) == []


def test_every_fix_is_preset_fenced_and_the_schedule_stays() -> None:
    plan = decode_plan(FAILING[0].read_bytes(), FAILING[0])
    fixed = with_every_fix(plan)
    assert (fixed.topology.preset, fixed.topology.toggles, fixed.planted) == ("fenced", {}, "")
    told = ("seed", "steps", "workload", "network", "quiet_after_ms", "core", "probes_shrinking")
    assert [getattr(fixed, name) for name in told] == [getattr(plan, name) for name in told]
