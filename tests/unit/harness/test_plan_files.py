"""Plan files of the project: each as Highwater writes it, so that a new default or a field's new
name shows in a diff alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.project import project_root
from highwater.runs.plans.running import read_plan
from highwater_chaos.plan import encode_plan

FILES = sorted((project_root() / "tests" / "plans").rglob("*.json"))


def test_there_are_plan_files_of_the_suite_and_of_bugs() -> None:
    assert {path.parent.name for path in FILES} == {"plans", "bugs"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_plan_file_has_its_changed_defaults_in_the_order_of_the_fields(path: Path) -> None:
    assert path.read_bytes() == encode_plan(read_plan(path), omit_defaults=True)
