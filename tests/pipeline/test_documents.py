"""What a run's small files tell, without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater_pipeline.ingest.documents import read_documents
from highwater_pipeline.ingest.inventory import take_inventory


@pytest.mark.parametrize(
    ("build", "plan", "commit"),
    [
        ('{"commit": "ran"}', '{"commit": "kept"}', "ran"),
        ('{"commit": ""}', '{"commit": "kept"}', "kept"),
        ("", '{"commit": "kept"}', "kept"),
        ('{"commit": "ran"}', "", "ran"),
        ("", "{}", None),
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
