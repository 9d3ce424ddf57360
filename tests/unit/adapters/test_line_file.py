"""A client's lines reach the system at once: a kill of its process loses none."""

from __future__ import annotations

from pathlib import Path

from highwater_adapters.client_process import LineFile


def test_a_line_can_be_read_by_others_as_soon_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "p0.jsonl"
    file = LineFile(path)
    file.write({"a": 1})
    assert path.read_bytes() == b'{"a":1}\n'
    file.write([2])
    assert path.read_bytes() == b'{"a":1}\n[2]\n'
    file.close()
