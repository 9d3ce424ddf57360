"""The parts of a trace are put together in their order, and others' are left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.cluster.trace_parts import join_parts

CASES = {
    "no parts": ({"broker-0-3.jsonl": "a"}, {"broker-0-3.jsonl": "a"}),
    "two parts": (
        {"broker-0-3.jsonl.000002": "b", "broker-0-3.jsonl.000001": "a", "broker-0-3.jsonl": "c"},
        {"broker-0-3.jsonl": "abc"},
    ),
    "killed between two parts": ({"broker-0-3.jsonl.000001": "a"}, {"broker-0-3.jsonl": "a"}),
    "another node's": (
        {"broker-01-3.jsonl.000001": "a", "broker-0-3.jsonl": "c"},
        {"broker-01-3.jsonl.000001": "a", "broker-0-3.jsonl": "c"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_parts_become_one_file(case: str, tmp_path: Path) -> None:
    files, expected = CASES[case]
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    join_parts(tmp_path, "broker-0-")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == expected
