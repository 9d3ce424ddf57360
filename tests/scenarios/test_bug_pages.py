"""Each bug's plan shows its row, its twin passes, and its page tells what they do today."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.bugs.kept import NoSuchBug, all_bugs, bug_of
from highwater.bugs.page import FOLDER_OF_PAGES, index, page, page_name
from highwater.bugs.told import tell

FOLDER = Path(__file__).parents[2] / FOLDER_OF_PAGES
SHOWN = [bug.name for bug in all_bugs() if bug.scenario]


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
    with pytest.raises(NoSuchBug):
        bug_of(name)
