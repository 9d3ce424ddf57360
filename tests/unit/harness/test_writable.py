"""A path is tried before the work: nothing is left behind, and existing files stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.search.writable import CannotWrite, check_can_write


def test_trying_a_new_file_leaves_none(tmp_path: Path) -> None:
    check_can_write(tmp_path / "new" / "plan.json")
    assert list((tmp_path / "new").iterdir()) == []


def test_trying_a_file_leaves_it_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("{}")
    check_can_write(path)
    assert path.read_text() == "{}"


def test_a_file_that_cannot_be_written_is_reported_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "plan.json", tmp_path):
        with pytest.raises(CannotWrite, match=str(path)):
            check_can_write(path)
