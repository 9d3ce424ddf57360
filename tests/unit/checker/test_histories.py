"""The files that clients leave: their client, their order, and torn lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater_checker.history import client_of, incarnation_of, process_name
from highwater_checker.run_folder.histories import incarnations_of, torn_histories, torn_while_alive

WHOLE, TORN = b'{"a":1}\n', b'{"a":1}\n{"b'


@pytest.mark.parametrize(("name", "number"), [("p0", 1), ("p0.2", 2), ("p0.10", 10)])
def test_a_process_name_tells_its_client_and_which_incarnation_it_is(
    name: str, number: int
) -> None:
    assert process_name("p0", number) == name
    assert (client_of(name), incarnation_of(name)) == ("p0", number)


def test_the_processes_of_a_client_come_in_the_order_of_its_incarnations() -> None:
    found = incarnations_of("p1", ("p1", "p1.10", "p1.2", "p11", "c1"))
    assert found == ["p1", "p1.2", "p1.10"]


@pytest.mark.parametrize(
    ("files", "torn", "alive"),
    [
        ({"p0": WHOLE, "c0": b""}, [], []),
        ({"p0": TORN, "p0.2": WHOLE, "c0": WHOLE, "c0.2": WHOLE}, ["p0"], []),
        ({"p0": TORN, "p0.2": TORN}, ["p0", "p0.2"], ["p0.2"]),
        ({"p0": WHOLE, "c0": TORN}, ["c0"], ["c0"]),
    ],
)
def test_half_a_line_is_counted_and_only_a_client_that_was_killed_may_leave_it(
    tmp_path: Path, files: dict[str, bytes], torn: list[str], alive: list[str]
) -> None:
    for name, content in files.items():
        (tmp_path / f"{name}.jsonl").write_bytes(content)
    assert torn_histories(tmp_path) == torn
    assert torn_while_alive(tmp_path) == alive
