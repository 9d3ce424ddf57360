"""A story's diagram: who stands in which column."""

from __future__ import annotations

import pytest

from highwater_checker.stories.diagram import diagram_of, mermaid
from highwater_checker.stories.entries import JUDGE, ORACLE, PLAN, Entry, Note
from highwater_checker.stories.story import CLIENTS, Story

FAULT = Entry(1, PLAN, Note(PLAN, "kill leader of t-0", {"on": 0}))
SEND = Entry(2, CLIENTS, Note(CLIENTS, "send ok", {"records": 3}))


@pytest.mark.parametrize("finder", [ORACLE, JUDGE])
def test_a_violation_is_in_the_column_of_who_found_it(finder: str) -> None:
    story = Story((FAULT, SEND, Entry(3, finder, Note(finder, "I1 t-0 @2: lost"))))
    drawn = diagram_of(story)
    assert drawn.columns == ("faults", "clients", "broker-0", finder)
    assert [step.who for step in drawn.steps if step.is_verdict] == [finder]
    assert f"    Note over {finder}: I1 t-0 @2: lost" in list(mermaid(story))


def test_a_story_without_a_violation_has_no_such_column() -> None:
    assert diagram_of(Story((FAULT, SEND))).columns == ("faults", "clients", "broker-0")
