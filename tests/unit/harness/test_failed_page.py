"""A failed run's page begins with the violation, how it is seen again, and its story."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console

from highwater.bugs.kept import bug_of
from highwater.report.diagram_svg import drawing_of
from highwater.report.screen import Screen
from highwater.run_folder import RunFolder
from highwater.runs.plans.in_simulator import run_in_simulator
from highwater_checker.stories.diagram import Diagram, Step


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "failed"
    run_in_simulator(bug_of("KAFKA-3410").plan(), RunFolder(folder), Screen(Console(quiet=True)))
    return folder


class _Page(HTMLParser):
    """The links of a page, and its words; a tag that is not closed is an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "img", "input", "line", "rect", "path"):
            self._open.append(tag)
        self.links += [value for name, value in attrs if name == "href" and value]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A tag without contents."""

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_it_begins_with_the_violation_and_the_command_that_shows_it_again(failed: Path) -> None:
    page = _Page((failed / "report.html").read_text())
    words = " ".join(" ".join(page.words).split())
    parts = [
        "I4: t-0, offset 4, broker 0: broker 0 leads epoch 1 with a log up to 4; in epoch 0 all"
        " up to 22 was committed (7.012 s from the run's start)",
        "Why: broker 0 was elected for epoch 1 from outside the ISR",
        "demands: Log start ≤ high watermark ≤ log end",
        "Row 10 of the catalogue of historical bugs: A leader is elected from outside the ISR",
        "See it again",
        f"highwater reproduce {failed}",
        "in virtual time: seed",
        "What happened",
        "leader_elected",
        "elected in epoch 1, ISR [0]",
        "Messages between the nodes before it",
        "Fetch from 0 on, epoch 0",
        "What the replicas have there",
        "t-0 as each broker told it last",
        "epoch 0",
        "Where it is written",
        "trace/broker-0-1.jsonl:",
        "The run",
    ]
    end = 0
    for part in parts:
        end = words.index(part, end) + len(part)


def test_its_links_to_files_lead_to_the_runs_own(failed: Path) -> None:
    found = _Page((failed / "report.html").read_text()).links
    links = [each for each in found if ":" not in each and not each.startswith("#")]
    assert {"plan.json", "trace/", "history/"} <= set(links)
    assert [each for each in links if not (failed / each).exists()] == []


def test_a_passed_runs_page_has_no_such_part(tmp_path: Path) -> None:
    from highwater_chaos.fixed import with_every_fix

    plan = with_every_fix(bug_of("KAFKA-3410").plan())
    run_in_simulator(plan, RunFolder(tmp_path / "passed"), Screen(Console(quiet=True)))
    assert "See it again" not in (tmp_path / "passed" / "report.html").read_text()


def test_a_diagrams_steps_follow_each_other_downwards_and_stay_between_its_columns() -> None:
    long = "a step whose words need more than one line " * 9
    steps = (
        Step(1, "faults", "short"),
        Step(2, "broker-0", long),
        Step(3, "controller-1000", long, "broker-0"),
        Step(4, "broker-0", "arrow", "controller-1000"),
    )
    drawing = drawing_of(Diagram(("faults", "clients", "broker-0", "controller-1000"), steps))
    bottoms = [row.y + row.height for row in drawing.rows]
    tops = [row.y - (len(row.lines) * 14 if row.to_x else 0) for row in drawing.rows]
    assert all(top >= bottom for bottom, top in zip(bottoms, tops[1:], strict=False))
    assert drawing.height >= bottoms[-1]
    xs = {column.name: column.x for column in drawing.columns}
    assert [(row.x, row.to_x) for row in drawing.rows] == [
        (xs[step.who], xs.get(step.to)) for step in steps
    ]
    assert all(row.x + row.width / 2 <= drawing.width for row in drawing.rows if row.to_x is None)
    assert drawing.rows[1].lines[-1].endswith(" ...")
    assert drawing.rows[1].whole == long
