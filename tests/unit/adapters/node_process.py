"""A node in a process of its own, which ends itself upon a bug."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from highwater_adapters.process import load_settings, run_node
from highwater_core.events import TraceEvent
from highwater_core.ports import Ports
from highwater_core.traces import decode_events
from tests.unit.adapters.node_settings import Settings

END_TIMEOUT_S = 60


MakeNode = Callable[[Settings, Ports], Any]


def run_to_the_end(make_node: MakeNode, settings: Settings) -> int | None:
    """Run a node that a module defines, and return the exit code of its process.

    The node's log is on standard error, where the fixture capfd finds it.
    """
    return _end_of(_run, make_node, settings)


def run_as_its_variables_say(make_node: MakeNode) -> int | None:
    """Run a node whose settings are this process's environment."""
    return _end_of(_run_as_its_variables_say, make_node)


def trace_of(folder: Path, incarnation: int = 1) -> list[TraceEvent]:
    lines = (folder / "trace" / f"{incarnation}.jsonl").read_bytes().splitlines()
    return decode_events(lines)


def _run(make_node: MakeNode, settings: Settings) -> None:
    sys.exit(run_node(settings, make_node))


def _run_as_its_variables_say(make_node: MakeNode) -> None:
    sys.exit(run_node(load_settings(Settings), make_node))


def _end_of(target: Callable[..., None], *arguments: object) -> int | None:
    node = multiprocessing.get_context("spawn").Process(target=target, args=arguments)
    node.start()
    node.join(END_TIMEOUT_S)
    if node.is_alive():
        node.kill()
        node.join()
        pytest.fail(f"the node {arguments} did not end within {END_TIMEOUT_S} s")
    code = node.exitcode
    node.close()  # its descriptors, which later tests would see go
    return code
