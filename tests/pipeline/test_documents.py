"""The contents of a run's small files, read without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater_pipeline.ingest.documents import read_documents
from highwater_pipeline.ingest.inventory import take_inventory

KEPT = '{"seed": 1, "commit": "kept"}'


@pytest.mark.parametrize(
    ("build", "plan", "commit"),
    [
        ('{"commit": "ran"}', KEPT, "ran"),
        ('{"commit": ""}', KEPT, "kept"),
        ("", KEPT, "kept"),
        ('{"commit": "ran"}', "", "ran"),
        ("", '{"seed": 1}', None),
    ],
    ids=["both", "no checkout", "plan alone", "build alone", "neither"],
)
def test_a_run_is_of_the_code_that_ran(
    tmp_path: Path, build: str, plan: str, commit: str | None
) -> None:
    (tmp_path / "topology.json").write_text("{}")
    for name, text in (("build.json", build), ("plan.json", plan)):
        if text:
            (tmp_path / name).write_text(text)
    documents = read_documents(take_inventory(tmp_path))
    assert documents.row["commit"] == commit
    assert documents.wrong == ()


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        ("{", "not JSON: Input data was truncated"),
        ('{"seed": 1, "format": 0}', "wrong: plan.json: format 0 is not 2"),
        ('{"seed": 1, "more": 0}', "wrong: plan.json: Object contains unknown field `more`"),
    ],
    ids=["no JSON", "of another format", "of another structure"],
)
def test_a_wrong_plan_is_reported_and_gives_no_columns(tmp_path: Path, plan: str, why: str) -> None:
    (tmp_path / "plan.json").write_text(plan)
    documents = read_documents(take_inventory(tmp_path))
    assert [(file, wrong.reason) for file, wrong in documents.wrong] == [("plan.json", why)]
    assert "title" not in documents.row
