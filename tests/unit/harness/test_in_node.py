"""A program in a node's container whose output the engine loses is run again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from highwater.cluster.in_node import ProgramFailed, run_in_node


def cluster_that_says(*outputs: bytes) -> tuple[Any, list[list[str]]]:
    ran: list[list[str]] = []
    said = iter(outputs)

    def create(name: str, command: list[str]) -> dict[str, str]:
        ran.append(command)
        return {"Id": "x"}

    api = SimpleNamespace(
        exec_create=create,
        exec_start=lambda _: next(said),
        exec_inspect=lambda _: {"ExitCode": 0},
    )
    engine = SimpleNamespace(api=api)
    return SimpleNamespace(engine=engine, container_name=lambda node: f"n-{node}"), ran


def test_lost_output_is_no_empty_answer() -> None:
    """Found: a program of a test ended with 0 and no output, on a busy machine; a soak's proof that
    a round left nothing on a disk would have passed by it."""
    cluster, ran = cluster_that_says(b"", b"/data\n")
    assert run_in_node(cast(Any, cluster), 0, ["find"]) == "/data\n"
    assert len(ran) == 2
    cluster, ran = cluster_that_says(b"", b"", b"", b"late")
    with pytest.raises(ProgramFailed, match="n-0: find: its output was lost 3 times"):
        run_in_node(cast(Any, cluster), 0, ["find"])


def test_a_program_that_prints_nothing_runs_once() -> None:
    cluster, ran = cluster_that_says(b"")
    assert run_in_node(cast(Any, cluster), 0, ["rm", "x"], prints=False) == ""
    assert ran == [["rm", "x"]]
