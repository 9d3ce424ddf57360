"""Fail-points that a file on the node's volume arms before the node's first step."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from highwater_adapters.armed_at_start import FILE_NAME
from highwater_core.events import EventKind
from highwater_core.fail_points import FailPoint, FailPoints
from highwater_core.messages import FailPointAction, SetFailPointRequest
from highwater_core.ports import Ports
from tests.unit.adapters.node_process import run_to_the_end, trace_of
from tests.unit.adapters.node_settings import Settings

HERE = FailPoint.DURING_LOG_RECOVERY


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


def run_with(folder: Path, content: bytes) -> tuple[int | None, list[EventKind]]:
    (folder / FILE_NAME).write_bytes(content)
    code = run_to_the_end(NodeThatRecovers, Settings(str(folder)))
    return code, [event.kind for event in trace_of(folder)]


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
