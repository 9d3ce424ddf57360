"""Which plan a test of the pytest plugin runs, where, and which verdict fails it."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from highwater import pytest_plugin
from highwater.errors import HarnessError
from highwater.report.again import again_of
from highwater.runs.plans.outcome import PlanResult
from highwater.testing import asked, plans
from highwater.testing.plans import plan_of, why_wrong
from highwater.testing.verdicts import name_here, say_crowded
from highwater_chaos.plan import Expected, Plan, encode_plan
from highwater_checker.finding import CheckResult, Finding
from highwater_checker.verdict import Requirement, Verdict, judge

PLAN = Plan(seed=3, title="by a program")


def item_of(
    folder: Path, *plans: object, selected: int = 1, **options: object
) -> Any:  # a pytest.Item
    """Return a test with the marker, beside which other selected tests run plans."""
    marker = pytest.mark.highwater_plan(*plans).mark if plans else None
    others = [SimpleNamespace(fixturenames=(asked.RUN,))] * selected
    return SimpleNamespace(
        path=folder / "test_it.py",
        get_closest_marker=lambda name: marker,
        config=SimpleNamespace(
            getoption=options.get, invocation_params=SimpleNamespace(dir=folder)
        ),
        session=SimpleNamespace(items=[*others, SimpleNamespace(fixturenames=("other",))]),
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, seed in (("b", 2), ("a", 1), ("kept", 9)):
        (tmp_path / f"{name}.json").write_bytes(encode_plan(Plan(seed=seed)))
    return tmp_path


@pytest.mark.parametrize(
    ("plans", "names"),
    [
        (("b.json",), ["b"]),
        (("[ab].json",), ["[ab]"]),
        (("*.json",), ["a", "b", "kept"]),
        (("kept.json", PLAN, Plan(seed=1)), ["kept", "by a program", "2"]),
        (("none-*.json",), []),
    ],
)
def test_each_plan_of_the_marker_has_a_name(
    plans: tuple[Any, ...], names: list[str], folder: Path
) -> None:
    found = asked.plans_of(asked.AskedPlan(plans), folder)
    assert asked.names_of(found) == names


@pytest.mark.parametrize(
    ("plans", "options", "seed"),
    [
        (("a.json",), {}, 1),
        ((PLAN,), {}, 3),
        (("a.json",), {asked.SEED: 0}, 0),
        (("a.json",), {asked.REPLAY: "kept.json"}, 9),
        (("a.json",), {asked.REPLAY: "kept.json", asked.SEED: 5}, 5),
        ((), {asked.REPLAY: "kept.json"}, 9),
    ],
)
def test_options_go_before_the_marker(
    plans: tuple[Any, ...],
    options: dict[str, Any],
    seed: int,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    item = item_of(folder, *plans, **options)
    assert plan_of(item, asked.asked_plan(item), None).seed == seed


@pytest.mark.parametrize(
    ("plans", "selected", "options", "why"),
    [
        ((), 1, {}, "wants @pytest.mark.highwater_plan"),
        (("c.json",), 1, {}, "c.json: No such file"),
        (("c*.json",), 1, {}, "no plan is called c[*].json in "),
        ((Plan(seed=1, quiet_after_ms=-1),), 1, {}, "plan: quiet_after_ms"),
        (("a.json",), 2, {asked.REPLAY: "kept.json"}, "is for one test, name it: 2 run a plan"),
    ],
)
def test_a_test_without_its_one_plan_says_what_it_wants(
    plans: tuple[Any, ...], selected: int, options: dict[str, Any], why: str, folder: Path
) -> None:
    item = item_of(folder, *plans, selected=selected, **options)
    with pytest.raises(HarnessError, match=why):
        plan_of(item, asked.asked_plan(item), None)


@pytest.mark.parametrize(
    ("option", "marker", "world"),
    [
        (None, {}, "docker"),
        (None, {"world": "sim"}, "sim"),
        ("docker", {"world": "sim"}, "docker"),
        ("sim", {}, "sim"),
    ],
)
def test_the_command_line_chooses_the_world_before_the_marker(
    option: str | None, marker: dict[str, str], world: str
) -> None:
    item = item_of(Path(), **{asked.WORLD: option})
    mark = pytest.mark.highwater_plan("a.json", **marker).mark
    item.get_closest_marker = lambda name: mark
    assert asked.world_of(item) == world


def verdict_of(*invariants: str, met: bool = True) -> Verdict:
    findings = tuple(Finding(each, "why") for each in invariants)
    return judge([CheckResult("c", 1, findings)], [Requirement("r", met, "never")])


PASSED, FAILED, UNKNOWN = verdict_of(), verdict_of("I1", "I9"), verdict_of(met=False)


@pytest.mark.parametrize(
    ("expected", "verdict", "verdict_in", "wrong"),
    [
        (None, PASSED, None, ""),
        (None, FAILED, None, "the verdict is not pass"),
        (None, UNKNOWN, None, "the verdict is not pass"),
        (Expected("fail"), FAILED, None, ""),
        (Expected("fail"), PASSED, None, "the verdict is not fail"),
        (Expected("fail", invariant="I9"), FAILED, None, ""),
        (
            Expected("fail", invariant="I7"),
            FAILED,
            None,
            "the plan expects that I7 is violated, which it is not",
        ),
        (Expected("fail"), PASSED, ["pass"], ""),
        (Expected("fail", invariant="I7"), FAILED, ["fail"], ""),
        (None, UNKNOWN, ["unknown", "pass"], ""),
        (None, FAILED, ["unknown", "pass"], "the verdict is not pass or unknown"),
        (None, FAILED, [], ""),
    ],
)
def test_the_verdict_must_be_what_the_test_allows_or_else_what_the_plan_expects(
    expected: Expected | None, verdict: Verdict, verdict_in: list[str] | None, wrong: str
) -> None:
    assert why_wrong(expected, verdict, verdict_in) == wrong


def test_a_test_is_named_as_it_is_typed_where_pytest_was_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the test changed the current folder, which then may be gone."""
    params = SimpleNamespace(dir=tmp_path / "project" / "sub")
    node: Any = SimpleNamespace(
        nodeid="tests/test_it.py::test_it[a b]",
        path=tmp_path / "project" / "tests" / "test_it.py",
        config=SimpleNamespace(invocation_params=params),
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    elsewhere.rmdir()
    assert name_here(node) == "../tests/test_it.py::test_it[a b]"
    assert again_of(tmp_path).folder == str(tmp_path)


@pytest.mark.parametrize(
    ("workers", "cores", "most"),
    [(0, 1, None), (1, 1, None), (2, 4, None), (2, 2, 1), (3, 4, 2), (8, 5, 2), (8, 0, None)],
)
def test_more_workers_than_half_the_cores_are_warned_of(
    workers: int, cores: int, most: int | None
) -> None:
    said = say_crowded(workers, cores, at_once=str(workers))
    assert said.endswith(f"pytest -n {most} has enough") if most else said == ""
    assert not most or say_crowded(workers, cores, at_once=str(most)) == "", "they take turns"
    said = say_crowded(workers, cores)
    assert f"so {most} at a time could be up" in said if most else said == ""


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"wurld": "sim"}, "has no wurld; it has client, world, verdict_in"),
        ({"world": "mars"}, "world is 'sim' or 'docker', not 'mars'"),
        ({"verdict_in": "pass"}, "verdict_in is a list of verdicts, not 'pass'"),
        ({"verdict_in": ["green"]}, "verdict_in has 'green'; it is pass, fail, unknown"),
    ],
)
def test_a_marker_with_a_wrong_argument_says_which_there_are(
    arguments: dict[str, Any], why: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=why):
        asked.read_marker(pytest.mark.highwater_plan("a.json", **arguments).mark)


@pytest.mark.parametrize("several", [(3,), (3, 4)])
def test_what_is_no_plan_is_refused_by_its_test(
    several: tuple[object, ...], tmp_path: Path
) -> None:
    item = item_of(tmp_path, *several)
    found = asked.plans_of(asked.read_marker(item.get_closest_marker("")), tmp_path)
    assert len(asked.names_of(found)) == len(several)
    with pytest.raises(HarnessError, match="takes files and Plans, and 3 is neither"):
        plan_of(item, asked.asked_plan(item), found[0])


def test_an_unknown_client_is_refused_before_anything_runs(tmp_path: Path) -> None:
    item = item_of(tmp_path)
    item.get_closest_marker = lambda name: pytest.mark.highwater_plan(PLAN, client="mars").mark
    with pytest.raises(HarnessError, match="no client is called 'mars'; there are own"):
        plans.run_plan_of(item, None)


@pytest.mark.parametrize(("verdict_in", "stays"), [(None, True), (["fail"], False)])
def test_the_cluster_of_a_plan_that_failed_its_test_stays_where_it_is_to(
    verdict_in: list[str] | None,
    stays: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    removed: list[str] = []

    def run_in(*args: Any, keeps_failed: bool) -> PlanResult:
        args[2]()  # makes the folder
        left_up = ("remove it: highwater down it",) if keeps_failed else ()
        return PlanResult(tmp_path, FAILED, left_up=left_up)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plans, "run_in", run_in)
    monkeypatch.setattr(plans, "connect_engine", lambda: None)
    monkeypatch.setattr(plans, "remove_run", lambda engine, run: removed.append(run))
    item = item_of(tmp_path, **{asked.KEEP: True})
    item.nodeid, item.stash, item.config.stash = "test_it.py::test_it", pytest.Stash(), {}
    item.path = tmp_path / "test_it.py"
    mark = pytest.mark.highwater_plan(PLAN, verdict_in=verdict_in).mark
    item.get_closest_marker = lambda name: mark
    plans.run_plan_of(item, None)
    assert bool(removed) is not stays
    assert ("remove it: highwater down it" in item.stash.get(plans.WRONG, "")) is stays


@pytest.mark.parametrize(
    ("option", "typed", "why"),
    [
        (asked.SEED, "x", "'x' is no whole number"),
        (asked.SEED, str(2**63), "has more than 64 bits"),
        (asked.REPLAY, "nothing.json", "no plan is there: "),
        (pytest_plugin.HANG_AFTER, "soon", "'soon' is no number of seconds"),
        (pytest_plugin.HANG_AFTER, "nan", "nan is no time to wait"),
    ],
)
def test_an_options_wrong_value_is_told_in_words(option: str, typed: str, why: str) -> None:
    types: dict[str, Any] = {}
    group = SimpleNamespace(addoption=lambda name, **rest: types.update({name: rest.get("type")}))
    parser: Any = SimpleNamespace(getgroup=lambda *names: group)
    pytest_plugin.pytest_addoption(parser)
    with pytest.raises(argparse.ArgumentTypeError, match=why):
        types[option](typed)
