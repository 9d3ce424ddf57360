"""Each bug's plan shows its row, its twin passes, and its page tells what they do today."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from highwater.bugs.fixes import FIXES, Change, changes_of
from highwater.bugs.kept import Bug, HasNoPlan, NoSuchBug, all_bugs, bug_of
from highwater.bugs.page import FOLDER_OF_PAGES, index, page, page_name
from highwater.bugs.told import tell
from highwater_core.config import Preset, resolve_toggles
from highwater_simulator.runner import run_plan
from highwater_simulator.search import find

FOLDER = Path(__file__).parents[2] / FOLDER_OF_PAGES
SHOWN = [bug.name for bug in all_bugs() if bug.scenario]
BY_PRESET = [
    bug.name
    for bug in all_bugs()
    if bug.scenario and bug.plan().topology.preset is not Preset.FENCED
]
"""Bugs whose two runs differ in more toggles than the fix."""


@pytest.fixture
def rewrites(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--rewrite"))


def compare(path: Path, text: str, rewrites: bool) -> None:
    if rewrites:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    told = path.read_text() if path.exists() else ""
    assert told == text, f"{path.name} tells another story: look at it, then run with --rewrite"


@pytest.mark.parametrize("name", SHOWN)
def test_a_bugs_plan_shows_it_and_its_page_tells_its_story(name: str, rewrites: bool) -> None:
    told = tell(bug_of(name))
    assert list(told.problems()) == []
    assert told.shown.violation is not None
    assert told.shown.violation.invariant in told.bug.row.invariants
    compare(FOLDER / page_name(told.bug), page(told), rewrites)


def is_shown_with(bug: Bug, changes: Iterable[Change]) -> bool:
    """Return whether the bug's plan shows it with these toggles mended, and no others."""
    plan = bug.plan()
    toggles = {**plan.topology.toggles, **{each.toggle: each.after for each in changes}}
    resolve_toggles(plan.topology.preset, toggles)
    result = run_plan(replace(plan, topology=replace(plan.topology, toggles=toggles)))
    found = find(result)
    if found is None or bug.row.trigger is None:
        return False
    at = found.violation.topic, found.violation.partition, found.violation.offset
    return bool(bug.row.trigger(result.trace.events(), *at))


@pytest.mark.parametrize("name", BY_PRESET)
def test_the_fix_that_a_page_names_takes_the_bug_away_alone(name: str) -> None:
    bug = bug_of(name)
    changes = changes_of(bug)
    assert changes
    assert all(each.before != each.after for each in changes)
    assert not is_shown_with(bug, changes)


@pytest.mark.parametrize("number", [number for number in FIXES if len(FIXES[number]) > 1])
def test_a_fix_of_several_toggles_needs_each_of_them(number: int) -> None:
    bug = bug_of(str(number))
    changes = changes_of(bug)
    for fewer in combinations(changes, len(changes) - 1):
        try:
            is_shown = is_shown_with(bug, fewer)
        except msgspec.ValidationError:
            continue  # one of them is refused without another
        assert is_shown, fewer


def test_a_bug_of_a_planted_mistake_has_no_toggle() -> None:
    planted = [bug for bug in all_bugs() if bug.scenario and bug.plan().planted]
    assert planted
    assert not any(map(changes_of, planted))


def test_the_index_names_every_row(rewrites: bool) -> None:
    compare(FOLDER / "README.md", index(), rewrites)


def test_no_page_is_left_of_a_bug_that_has_no_plan() -> None:
    pages = {path.name for path in FOLDER.glob("*.md")} - {"README.md"}
    assert pages == {page_name(bug_of(name)) for name in SHOWN}


@pytest.mark.parametrize(
    ("name", "row"),
    [("KAFKA-1211", 1), ("kip-101", 2), ("7", 7), ("KIP-279", 3), ("v2-hw-leo", 38)],
)
def test_a_bug_is_found_by_an_id_or_its_row(name: str, row: int) -> None:
    assert bug_of(name).row.number == row


@pytest.mark.parametrize("name", ["KAFKA-0", "", "99", "kafka 1211"])
def test_a_bug_that_the_catalogue_lacks_is_refused(name: str) -> None:
    with pytest.raises(NoSuchBug, match="the catalogue has no bug"):
        bug_of(name)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("KAFKA-13572", "it is a metric that went below 0"),
        ("kafka-15583", "it is the first half of row 9's fix"),
        ("KIP-501", "it was never changed"),
    ],
)
def test_a_bug_that_is_no_row_is_answered_with_the_reason(name: str, why: str) -> None:
    with pytest.raises(NoSuchBug, match=f"{name.upper()} is no row of the catalogue: {why}"):
        bug_of(name)


@pytest.mark.parametrize("bug", all_bugs(), ids=lambda bug: bug.name)
def test_a_row_without_a_plan_says_whether_it_can_have_one(bug: Bug) -> None:
    if bug.scenario:
        assert bug.row.why_not_here == ""
        return
    with pytest.raises(HasNoPlan, match="does not apply here: ") as refused:
        bug.plan()
    assert str(refused.value).endswith(bug.row.why_not_here)
    assert bug.row.why_not_here in index()
