"""The common parts of both nodes' processes: settings, incarnation, random streams, a whole run."""

from __future__ import annotations

import asyncio
import errno
import io
import json
import os
import signal
import socket
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from highwater_adapters.process import (
    load_settings,
    raise_incarnation,
    read_boot_id,
)
from highwater_adapters.random_source import RandomSource
from highwater_core.events import EventKind
from highwater_core.fail_points import FailPoint, FailPoints
from highwater_core.ids import NO_CONTROLLER_EPOCH, NodeId
from highwater_core.messages import FailPointAction, NodeSnapshot
from highwater_core.ports import CannotStart, Ports
from highwater_core.settings import BadSetting
from tests.unit.adapters.node_process import (
    run_as_its_variables_say,
    run_to_the_end,
    trace_of,
)
from tests.unit.adapters.node_settings import Settings


class NodeThatWaits:
    def __init__(self, settings: Settings, ports: Ports) -> None:
        self.settings = settings
        self.ports = ports
        self.stopping = ports.runtime.event()

    def request_stop(self) -> None:
        self.stopping.set()

    async def run(self) -> None:
        self.ports.trace.emit(EventKind.NODE_STARTED)
        signal.raise_signal(signal.SIGTERM)
        assert await self.stopping.wait(10_000)


class NodeWithABug(NodeThatWaits):
    async def run(self) -> None:
        self.ports.trace.emit(
            EventKind.LOG_APPENDED, topic="t", partition=0, leader_epoch=0, offset=5, end_offset=6
        )
        raise OSError("nobody caught this")


class NodeInTheWrongPlace(NodeThatWaits):
    async def run(self) -> None:
        raise CannotStart("this folder is another's")


class NodeThatExitsAtAFailPoint(NodeThatWaits):
    async def run(self) -> None:
        ports, here = self.ports, FailPoint.BEFORE_LOG_FLUSH
        points = FailPoints(ports.runtime, ports.trace, ports.exit_now, [here])
        points.arm(here, FailPointAction.EXIT)
        await points.reach(here)
        ports.trace.emit(EventKind.NODE_STOPPED)


class NodeThatScrapesItself(NodeThatWaits):
    """Writes down what its port for metrics answers."""

    def snapshot(self) -> NodeSnapshot:
        return NodeSnapshot(
            NodeId(self.settings.node_id), "broker", 3, "fenced", NO_CONTROLLER_EPOCH
        )

    async def run(self) -> None:
        host, port = self.settings.control_host, self.settings.metrics_port
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        (Path(self.settings.data_folder) / "found").write_bytes(await reader.read())
        writer.close()
        await super().run()


class NodeThatCallsItself(NodeThatWaits):
    """Writes down which of two loopback addresses its control port answers."""

    async def run(self) -> None:
        found = []
        for host in ("127.0.0.1", "127.0.0.2"):
            with suppress(ConnectionError):
                _, writer = await asyncio.open_connection(host, self.ports.control.port)  # type: ignore[attr-defined]
                found.append(host)
                writer.close()
        (Path(self.settings.data_folder) / "found").write_text(" ".join(found))
        await super().run()


@pytest.mark.parametrize(
    ("listen_host", "expected"),
    [("", "127.0.0.1"), ("127.0.0.2", "127.0.0.2"), ("0.0.0.0", "127.0.0.1 127.0.0.2")],
)
def test_the_control_port_listens_where_it_is_announced_or_where_a_setting_says(
    tmp_path: Path, listen_host: str, expected: str
) -> None:
    settings = Settings(str(tmp_path), listen_host=listen_host)
    assert run_to_the_end(NodeThatCallsItself, settings) == 0
    assert (tmp_path / "found").read_text() == expected


def test_a_node_tells_its_metrics_itself_where_it_is_to(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert run_to_the_end(NodeThatScrapesItself, Settings(str(tmp_path), metrics_port=port)) == 0
    text = (tmp_path / "found").read_bytes().partition(b"\r\n\r\n")[2].decode()
    found = {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels == {"node": "broker-7"}
    }
    assert found["highwater_node_up"] == 1
    assert found["highwater_node_incarnation"] == 3
    assert found["process_open_fds"] > 0


def test_sigterm_stops_the_node_cleanly_and_starts_are_counted(tmp_path: Path) -> None:
    settings = Settings(str(tmp_path))
    assert [run_to_the_end(NodeThatWaits, settings) for _ in range(2)] == [0, 0]
    for incarnation in (1, 2):
        (event,) = trace_of(tmp_path, incarnation)
        assert (event.node, event.incarnation) == (7, incarnation)


def test_a_process_reads_its_settings_once_from_variables_of_which_none_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A node's environment is its own; the variables of the test run are none of its settings.
    for name in [name for name in os.environ if name.startswith("HIGHWATER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HIGHWATER_NODE_ID", "8")
    monkeypatch.setenv("HIGHWATER_DATA_FOLDER", str(tmp_path))
    assert run_as_its_variables_say(NodeThatWaits) == 0
    assert [event.node for event in trace_of(tmp_path)] == [8]


def test_a_node_that_refuses_to_start_is_no_bug_and_exits_1(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_to_the_end(NodeInTheWrongPlace, Settings(str(tmp_path))) == 1
    assert "cannot start: this folder is another's" in capfd.readouterr().err


def test_a_bug_ends_the_process_with_70_and_says_where(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_to_the_end(NodeWithABug, Settings(str(tmp_path))) == 70
    (line,) = capfd.readouterr().err.splitlines()
    fields = json.loads(line)
    assert (fields["level"], fields["node"]) == ("critical", 7)
    assert "nobody caught this" in fields["message"]
    assert "in run" in fields["traceback"]
    assert [event.kind for event in trace_of(tmp_path)] == [EventKind.LOG_APPENDED]


def test_a_fail_point_ends_the_process_as_sigkill_does_with_its_hit_in_the_trace(
    tmp_path: Path,
) -> None:
    assert run_to_the_end(NodeThatExitsAtAFailPoint, Settings(str(tmp_path))) == 137
    assert [event.kind for event in trace_of(tmp_path)] == [EventKind.FAIL_POINT_HIT]


def test_a_node_that_cannot_start_says_so_and_exits_1(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data").write_bytes(b"a file where the folder belongs")
    assert run_to_the_end(NodeThatWaits, Settings(str(tmp_path))) == 1
    assert "cannot start" in capfd.readouterr().err


def test_incarnations_grow_and_survive_a_damaged_counter(tmp_path: Path) -> None:
    assert [raise_incarnation(tmp_path / "new"), raise_incarnation(tmp_path / "new")] == [1, 2]
    (tmp_path / "new" / "incarnation").write_bytes(b"")
    assert raise_incarnation(tmp_path / "new") > 2


def test_starts_are_counted_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker must start before its retention can make room."""
    (tmp_path / "incarnation").write_text("98\n")
    write = os.write

    class FullDisk(io.FileIO):
        """Has no room for another file, but for as many bytes as the file had."""

        def write(self, data: Any) -> int:
            if os.fstat(self.fileno()).st_size == 0:
                raise OSError(errno.ENOSPC, "no space left on device")
            return write(self.fileno(), bytes(data))

    def open_there(path: Path, mode: str = "r", encoding: str = "", **how: Any) -> IO[str]:
        opened = io.FileIO(path) if mode == "r" else FullDisk(path, mode)
        return io.TextIOWrapper(opened, encoding)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "open", open_there)
    assert [raise_incarnation(tmp_path), raise_incarnation(tmp_path)] == [99, 100]
    assert [each.name for each in tmp_path.iterdir()] == ["incarnation"]
    with pytest.raises(OSError, match="no space"):
        raise_incarnation(tmp_path / "new")


def test_the_boot_is_named_as_the_kernel_names_it(tmp_path: Path) -> None:
    (tmp_path / "boot_id").write_bytes(b"465886cb-b968-4ac3-928f-1082cbe1260f\n")
    assert read_boot_id(tmp_path / "boot_id") == "465886cb-b968-4ac3-928f-1082cbe1260f"
    assert read_boot_id(tmp_path / "elsewhere") == ""
    assert read_boot_id() == read_boot_id()


def test_a_bad_setting_is_one_line_and_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("highwater_adapters.process.read_settings", _refuse)
    with pytest.raises(SystemExit) as stopped:
        load_settings(Settings)
    assert stopped.value.code == 2
    assert capsys.readouterr().err == "highwater: node_id is missing\n"


def _refuse(settings_type: type, environment: object) -> None:
    raise BadSetting("node_id is missing")


def test_random_streams_are_of_their_own_name() -> None:
    source = RandomSource("node", entropy=b"x")
    first = [source.stream("a").hex_id() for _ in range(2)]
    source.stream("b").random()
    assert first == [source.stream("a").hex_id()] * 2
    assert source.stream("b").hex_id() != first[0]
    assert len(first[0]) == 32
    assert all(3 <= source.randrange(3, 5) < 5 for _ in range(20))
