"""Fail-points that a file on the node's volume arms before the node's first step.

A node runs in a process of its own, which it ends upon a bug, and upon what it takes for one.
"""

from __future__ import annotations

import multiprocessing
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from highwater_adapters.armed_at_start import FILE_NAME
from highwater_adapters.process import run_node
from highwater_core.events import EventKind
from highwater_core.fail_points import FailPoint, FailPoints
from highwater_core.messages import FailPointAction, SetFailPointRequest
from highwater_core.ports import Ports
from highwater_core.traces import decode_events

HERE = FailPoint.DURING_LOG_RECOVERY


@dataclass(frozen=True)
class Settings:
    data_folder: str
    node_id: int = 7
    incarnation: int = 0
    control_host: str = "127.0.0.1"
    control_port: int = 0
    listen_host: str = ""
    control_allowed_networks: str = ""
    zookeeper: str = "127.0.0.1:1"
    trace_path: str = ""
    session_timeout_ms: int = 6_000
    event_loop_stall_max_ms: int = 10_000


class NodeThatRecovers:
    """Passes one seam, first of all, and ends."""

    def __init__(self, settings: Settings, ports: Ports) -> None:
        self.ports = ports
        self.fail_points = FailPoints(ports.runtime, ports.trace, ports.exit_now, [HERE])

    def request_stop(self) -> None:
        pass

    async def run(self) -> None:
        await self.fail_points.reach(HERE)
        self.ports.trace.emit(EventKind.NODE_STARTED)


def run_here(folder: str) -> None:
    sys.exit(run_node(Settings(folder), NodeThatRecovers))


def run_with(folder: Path, content: bytes) -> tuple[int | None, list[EventKind]]:
    (folder / FILE_NAME).write_bytes(content)
    node = multiprocessing.get_context("spawn").Process(target=run_here, args=(str(folder),))
    node.start()
    node.join(60)
    if node.is_alive():
        node.kill()
        pytest.fail(f"the node did not end: {(folder / 'trace' / '1.jsonl').read_bytes()!r}")
    code = node.exitcode
    node.close()  # its descriptors, which later tests would see go
    trace = (folder / "trace" / "1.jsonl").read_bytes().splitlines()
    return code, [event.kind for event in decode_events(trace)]


def test_a_point_of_the_file_is_armed_before_the_nodes_first_step(tmp_path: Path) -> None:
    request = SetFailPointRequest(HERE, FailPointAction.DELAY, 1, 1)
    code, kinds = run_with(tmp_path, msgspec.json.encode([request]))
    assert (code, kinds) == (0, [EventKind.FAIL_POINT_HIT, EventKind.NODE_STARTED])


def test_an_empty_list_arms_nothing(tmp_path: Path) -> None:
    assert run_with(tmp_path, b"[]") == (0, [EventKind.NODE_STARTED])


@pytest.mark.parametrize(
    "content",
    [
        b"[",
        b'{"name": "during_log_recovery"}',
        b'[{"name": "no_such_seam", "action": "exit"}]',
        b'[{"name": "during_log_recovery", "action": "exit", "count": -1}]',
    ],
)
def test_a_node_does_not_start_on_a_file_that_it_cannot_obey(
    tmp_path: Path, content: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_with(tmp_path, content) == (1, [])
    assert FILE_NAME in "".join(capfd.readouterr())
