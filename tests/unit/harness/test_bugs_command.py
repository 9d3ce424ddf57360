"""`highwater bugs list`: a table on a terminal, else one line a row."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console
from typer.testing import CliRunner

from highwater.cli import make_app
from highwater.commands.bugs import list as bugs_list
from highwater_checker.catalogue.rows import CATALOGUE

COLUMNS = 80
MOST_LINES_A_ROW = 3


def listed(*options: str) -> str:
    result = CliRunner().invoke(make_app("bugs"), ["bugs", "list", *options])
    assert result.exit_code == 0
    return result.stdout


def test_without_a_terminal_each_row_is_one_line_with_its_whole_title() -> None:
    head, *lines = listed().splitlines()
    assert head.split("  ")[-1] == "what happens"
    assert len(lines) == len(CATALOGUE)
    for row, line in zip(CATALOGUE, lines, strict=True):
        assert line.startswith(str(row.number))
        assert line.endswith(f"  {row.title}")


def test_on_a_terminal_of_80_columns_no_word_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=COLUMNS)
    monkeypatch.setattr(bugs_list, "RESULTS", screen)
    listed()
    assert isinstance(screen.file, io.StringIO)
    lines = screen.file.getvalue().splitlines()
    assert max(map(len, lines)) <= COLUMNS
    assert len(lines) <= MOST_LINES_A_ROW * len(CATALOGUE)
    words = {word for line in lines for word in line.split()}
    assert {word for row in CATALOGUE for word in (row.ids[0], *row.title.split())} <= words


@pytest.mark.parametrize(
    ("row", "shown_under"),
    [
        (3, "kip101"),
        (4, "fenced + toggle"),
        (5, "fenced + toggle"),
        (8, "v3"),
        (9, "fenced + 2 toggles"),
        (11, "v3 + 3 toggles"),
        (14, "v3 + toggle"),
        (20, "planted mistake"),
        (31, "does not apply"),
        (38, "v2"),
    ],
)
def test_it_says_by_what_a_bug_is_there(row: int, shown_under: str) -> None:
    cells = [each for each in listed().splitlines()[row].split("  ") if each]
    assert cells[2].strip() == shown_under


def test_its_json_has_what_each_row_breaks() -> None:
    rows = json.loads(listed("--json"))
    assert [each["breaks"] for each in rows] == [dict(row.breaks) for row in CATALOGUE]
