"""Verdicts as Markdown for a CI's page: complete, bounded, and text stays text."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from typer.testing import CliRunner

from highwater.cli import make_app
from highwater.report.again import Again
from highwater.report.explained import Explained
from highwater.report.page import PAGE
from highwater.report.summary import (
    MOST_CHARACTERS,
    MOST_KINDS,
    MOST_LINES,
    MOST_REASONS,
    MOST_ROWS,
    MOST_TOLD,
    ToldRun,
    judged,
    summary_of,
)
from highwater.run_folder import TEST
from highwater_checker.finding import CheckResult, Finding
from highwater_checker.stories.entries import JUDGE, Entry, Note
from highwater_checker.stories.story import Story
from highwater_checker.verdict import Requirement, judge
from tests.support.run_on_disk import segment, write_run

PLANNED = Again("u", is_virtual=True, seed=1, preset="v3", planted="", commit="")
HOSTILE = "a|b \\| `x` @y <script>alert(1)</script> [c](http://d) **e** \x1b[31m\n# f\n```\n"


def failed(
    name: str, message: str = "lost", lines: int = 1, *, invariant: str = "I1", others: int = 1
) -> ToldRun:
    finding = Finding(invariant, message, "t", 0, 5, rows=(9,))
    entries = tuple(Entry(number, JUDGE, Note(JUDGE, message)) for number in range(lines))
    story = Story(entries)
    told = Explained(1, finding, (), "what it means", story, ())
    more = (Finding("I3", message, message, number) for number in range(others))
    verdict = judge([CheckResult("c", 1, (finding, *more))], [])
    return ToldRun(Path(name), verdict, told, replace(PLANNED, folder=shlex.quote(name)))


def passed(name: str) -> ToldRun:
    return ToldRun(Path(name), judge([CheckResult("c", 1, ())], []), None)


def unknown(name: str) -> ToldRun:
    missed = Requirement("a leader changed", False, "never")
    return ToldRun(Path(name), judge([CheckResult("c", 1, ())], [missed]), None, PLANNED)


def of_test(folder: Path, test: str) -> Path:
    """Write a test's cluster's run, which fails, with a page."""
    write_run(folder)
    segment(folder, 1).write_bytes(b"")
    (folder / TEST).write_text(test + "\n")
    (folder / PAGE).write_text("its page")
    return folder


def html_of(markdown: str) -> str:
    return MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown)


def test_every_run_has_a_row_and_the_headline_counts_the_verdicts() -> None:
    text = summary_of([passed("a"), failed("b"), unknown("c"), passed("d")])
    lines = text.splitlines()
    assert lines[0] == "## Highwater: 1 failed, 1 unknown, 2 passed"
    assert lines[4:8] == [
        "| `b` |  | fail | `I1: t-0, offset 5: lost` |",
        "| `c` |  | unknown | `a leader changed: never` |",
        "| `a` |  | pass |  |",
        "| `d` |  | pass |  |",
    ]
    assert "### `I1: t-0, offset 5: lost`" in lines
    assert "highwater reproduce b" in lines
    assert "highwater explain b" in lines
    assert "A historical bug: The last replica in sync" in text


def test_a_tests_cluster_is_told_with_its_test_and_its_page(tmp_path: Path) -> None:
    """Found: the command was `highwater reproduce`, which refuses a run without a plan."""
    folder = of_test(tmp_path / "test-1", "tests/test_mine.py::test_it[a b]")
    text = summary_of([judged(folder, is_told=True)])
    assert f"| `{folder}` | `tests/test_mine.py::test_it[a b]` | fail |" in text
    assert "pytest 'tests/test_mine.py::test_it[a b]'" in text.splitlines()
    assert f"highwater explain {folder}" in text
    assert f"Its page: `{folder / PAGE}`" in text.splitlines()
    assert "reproduce" not in text


def test_an_unknown_run_is_told_with_all_that_makes_it_unknown() -> None:
    missed = [Requirement(f"r{number}", False, "no") for number in range(MOST_REASONS + 2)]
    verdict = judge([CheckResult("c", 1, ())], missed)
    lines = summary_of([ToldRun(Path("u"), verdict, None, PLANNED)]).splitlines()
    assert "### `u`: unknown" in lines
    assert f"- `r{MOST_REASONS - 1}: no`" in lines
    assert "- ... and 2 more" in lines
    assert "highwater reproduce u" in lines


def test_unknown_runs_that_are_told_are_bounded() -> None:
    text = summary_of([unknown(f"u{number}") for number in range(3 * MOST_TOLD)])
    assert text.count("\n### ") == MOST_TOLD
    assert f"{2 * MOST_TOLD} more unknown runs are in the table alone." in text


def test_no_run_gives_a_headline() -> None:
    assert summary_of([]).startswith("## Highwater: no run\n")


def test_what_a_run_says_is_never_markdown_or_html() -> None:
    page = html_of(summary_of([failed(HOSTILE, HOSTILE, invariant=HOSTILE)]))
    allowed = {"h2", "h3", "table", "thead", "tbody", "tr", "th", "td", "p", "pre"}
    tags = set(re.findall(r"</?([a-z0-9]+)", page))
    assert tags <= allowed | {"code", "details", "summary"}
    assert page.count("<h2>") == page.count("<h3>") == 1
    assert page.count("<pre>") == 2
    first, second = re.findall(r"<table>.*?</table>", page, re.DOTALL)
    assert len(re.findall("<td", first)) == 4
    assert len(re.findall("<td", second)) == 2 * 3
    assert "&lt;script&gt;" in page
    without_code = re.sub(r"<code>.*?</code>", "", page, flags=re.DOTALL)
    assert "script" not in without_code
    assert "@y" not in without_code
    assert "\x1b" not in page


def test_stories_lines_and_runs_are_bounded() -> None:
    count = MOST_TOLD + 3
    runs = [failed(f"run-{n}", "x" * 2_000, 3 * MOST_LINES, others=900) for n in range(count)]
    runs += [passed("r" * 250 + str(number)) for number in range(6_000)]
    text = summary_of(runs)
    assert f"| ... and {901 - MOST_KINDS} more | | |" in text
    assert f"| ... and {6_000 + count - MOST_ROWS} more | | | |" in text
    assert text.count("judge           ! ") == MOST_TOLD * MOST_LINES
    assert text.count("\n### ") == MOST_TOLD
    assert "3 more failed runs are in the table alone." in text
    assert f"... {2 * MOST_LINES} lines before" in text
    assert max(map(len, text.splitlines())) <= 3 * MOST_CHARACTERS
    assert len(text) < 1024 * 1024 // 2


def test_failed_runs_are_never_crowded_out_of_the_table() -> None:
    runs = [*(unknown(f"u{number}") for number in range(MOST_ROWS)), failed("last")]
    assert "| `last` |  | fail |" in summary_of(runs)


def test_no_more_stories_are_made_than_are_shown(tmp_path: Path) -> None:
    """Found: each story of a thousand failed runs was in memory, a megabyte each."""
    run = write_run(tmp_path / "run")
    segment(run, 1).write_bytes(b"")
    assert judged(run, is_told=True).told is not None
    alone = judged(run, is_told=False)
    assert alone.told is None
    assert alone.verdict == judged(run, is_told=True).verdict
    assert "1 more failed runs are in the table alone." in summary_of([alone])


def test_a_command_is_never_cut() -> None:
    folder = "/runs/" + "x" * 2 * MOST_CHARACTERS
    assert f"highwater reproduce {folder}\n" in summary_of([failed(folder)])


@pytest.mark.parametrize(("fails", "code"), [(True, 1), (False, 0)], ids=["fails", "passes"])
def test_the_command_prints_markdown_and_ends_with_the_verdict(
    tmp_path: Path, fails: bool, code: int
) -> None:
    run = write_run(tmp_path / "run")
    if fails:
        segment(run, 1).write_bytes(b"")
    result = CliRunner().invoke(make_app("judge"), ["judge", str(run), "--markdown"])
    assert result.exit_code == code
    assert result.stdout.startswith(f"## Highwater: 1 {'failed' if fails else 'passed'}\n")
    assert ("See it again" in result.stdout) is fails


def test_json_and_markdown_exclude_each_other(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    result = CliRunner().invoke(make_app("judge"), ["judge", str(run), "--markdown", "--json"])
    assert result.exit_code == 2
