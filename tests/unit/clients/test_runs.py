"""The recorded runs of stock clients, and the page that is made from them."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.project import project_root
from scripts.clients_page import clients_page
from tests.clients.runs import (
    FAILURE_CHARACTERS,
    Row,
    Run,
    decoded,
    encoded,
    shortened,
    with_run,
)

ROWS = (Row("a", "nobody"), Row("a", "leader"), Row("b", "nobody"))


def run(client: str, killed: str = "nobody", outcome: Any = "pass", **more: Any) -> Run:
    settings = {"version": "1.2", "preset": "fenced", "steps": {"group": "pass"}} | more
    return Run(client=client, killed=killed, outcome=outcome, **settings)


AWAY = run("a", outcome="not here", version="", steps={}, notes=("go is not installed",))
A, AGAIN, B = run("a"), run("a", seconds=2.0), run("b")
A_LEADER, GONE = run("a", "leader"), run("gone")


@pytest.mark.parametrize(
    ("before", "kept", "after"),
    [
        ([], A, [A]),
        ([A, B], AGAIN, [AGAIN, B]),
        ([B], A, [A, B]),
        ([B, A], A_LEADER, [A, A_LEADER, B]),
        ([A, GONE], B, [A, B]),
        ([], AWAY, [AWAY]),
        ([A], AWAY, [A]),
        ([AWAY], A, [A]),
    ],
    ids=[
        "the first",
        "a row's line is replaced",
        "the table's order",
        "each kill has a line",
        "a row that the table has no more goes",
        "a client that is not here is told of",
        "and leaves the line of a machine that had it",
        "which replaces it",
    ],
)
def test_a_run_is_kept_as_the_line_of_its_row(
    before: list[Run], kept: Run, after: list[Run]
) -> None:
    assert with_run(before, kept, ROWS) == after


def test_lines_read_back_as_they_were_written() -> None:
    runs = [run("a", codecs=("gzip",), notes=("a note",), seconds=1.5), B]
    assert decoded(encoded(runs)) == runs
    assert encoded(runs).count("\n") == 2


def test_a_failure_is_kept_by_its_end_and_without_the_folder_of_the_tree() -> None:
    failure = f"early {'x' * FAILURE_CHARACTERS}\nin {project_root()}/program.py\nOutOfOrder"
    kept = shortened(run("a", steps={"admin": failure, "group": "pass"})).steps
    assert kept["group"] == "pass"
    assert kept["admin"].endswith("in program.py OutOfOrder")
    assert len(kept["admin"]) == FAILURE_CHARACTERS


def test_the_page_has_each_clients_outcome() -> None:
    failing = run("a", "leader", "fail", steps={"group": "it hangs", "seek": "pass"})
    page = clients_page([AWAY, failing, run("b", notes=("slow",))])
    lines = [" ".join(line.split()) for line in page.splitlines()]
    assert "| [a](#a-12) | 1.2 | not tried | all but group | not tried |" in lines
    assert "| a group of two: share, rebalance, commit | not tried | no | not tried |" in lines
    assert "- the leader dies: group: it hangs" in lines
    assert "- nothing is wrong: go is not installed" in lines
    assert "- nothing is wrong: slow" in lines
    assert "| [b](#b-12) | 1.2 | all | not tried | not tried |" in lines
