"""What both nodes' processes share: settings, incarnation, random streams, a whole run."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from highwater_adapters import process
from highwater_adapters.process import (
    load_settings,
    raise_incarnation,
    read_boot_id,
    run_node,
)
from highwater_adapters.random_source import RandomSource
from highwater_core.events import EventKind
from highwater_core.ports import CannotStart, Ports
from highwater_core.settings import BadSetting
from highwater_core.traces import decode_events


@dataclass(frozen=True)
class Settings:
    node_id: int = 7
    incarnation: int = 0
    control_host: str = "127.0.0.1"
    control_port: int = 0
    listen_host: str = ""
    control_allowed_networks: str = ""
    zookeeper: str = "127.0.0.1:1"
    data_folder: str = ""
    trace_path: str = ""
    session_timeout_ms: int = 6_000
    event_loop_stall_max_ms: int = 10_000


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
        self.ports.trace.emit(EventKind.LOG_APPENDED, offset=5)
        raise OSError("nobody caught this")


class NodeInTheWrongPlace(NodeThatWaits):
    async def run(self) -> None:
        raise CannotStart("this folder is another's")


NODE_THAT_EXITS_AT_A_FAIL_POINT = """
import sys
from dataclasses import dataclass
from highwater_adapters import process
from highwater_core.events import EventKind
from highwater_core.fail_points import FailPoint, FailPoints
from highwater_core.messages import FailPointAction

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

class Node:
    def __init__(self, settings, ports):
        self.ports = ports

    def request_stop(self):
        pass

    async def run(self):
        ports, here = self.ports, FailPoint.BEFORE_LOG_FLUSH
        points = FailPoints(ports.runtime, ports.trace, ports.exit_now, [here])
        points.arm(here, FailPointAction.EXIT)
        await points.reach(here)
        ports.trace.emit(EventKind.NODE_STOPPED)

sys.exit(process.run_node(Settings(sys.argv[1]), Node))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(process, "set_up_logging", lambda node_id: None)
    return tmp_path


class NodeThatCallsItself(NodeThatWaits):
    """Looks at which of two loopback addresses its control port answers."""

    found: ClassVar[list[str]] = []

    async def run(self) -> None:
        self.found.clear()
        for host in ("127.0.0.1", "127.0.0.2"):
            with suppress(ConnectionError):
                _, writer = await asyncio.open_connection(host, self.ports.control.port)  # type: ignore[attr-defined]
                self.found.append(host)
                writer.close()
        await super().run()


@pytest.mark.parametrize(
    ("listen_host", "expected"),
    [("", ["127.0.0.1"]), ("127.0.0.2", ["127.0.0.2"]), ("0.0.0.0", ["127.0.0.1", "127.0.0.2"])],
)
def test_the_control_port_listens_where_it_is_announced_or_where_a_setting_says(
    folder: Path, listen_host: str, expected: list[str]
) -> None:
    settings = Settings(data_folder=str(folder), listen_host=listen_host)
    assert run_node(settings, NodeThatCallsItself) == 0
    assert NodeThatCallsItself.found == expected


def test_sigterm_stops_the_node_cleanly_and_starts_are_counted(folder: Path) -> None:
    settings = Settings(data_folder=str(folder))
    assert [run_node(settings, NodeThatWaits), run_node(settings, NodeThatWaits)] == [0, 0]
    for incarnation in (1, 2):
        trace = (folder / "trace" / f"{incarnation}.jsonl").read_bytes().splitlines()
        assert [(one.node, one.incarnation) for one in decode_events(trace)] == [(7, incarnation)]


def test_a_process_reads_its_settings_once_from_variables_of_which_none_is_unknown(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A node's environment is its own; the variables of the test run are none of its settings.
    for name in [name for name in os.environ if name.startswith("HIGHWATER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HIGHWATER_NODE_ID", "8")
    monkeypatch.setenv("HIGHWATER_DATA_FOLDER", str(folder))
    assert run_node(load_settings(Settings), NodeThatWaits) == 0
    (event,) = decode_events((folder / "trace" / "1.jsonl").read_bytes().splitlines())
    assert event.node == 8


def test_a_node_that_refuses_to_start_is_no_bug_and_exits_1(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert run_node(Settings(data_folder=str(folder)), NodeInTheWrongPlace) == 1
    assert "cannot start: this folder is another's" in caplog.text


def test_a_bug_ends_the_process_with_70_and_says_where(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(os, "_exit", sys.exit)
    with pytest.raises(SystemExit) as stopped:
        run_node(Settings(data_folder=str(folder)), NodeWithABug)
    assert stopped.value.code == 70
    (line,) = [process._JsonLines(7).format(record) for record in caplog.records]
    fields = json.loads(line)
    assert (fields["level"], fields["node"]) == ("critical", 7)
    assert "nobody caught this" in fields["message"]
    assert "in run" in fields["traceback"]
    assert b"log_appended" in (folder / "trace" / "1.jsonl").read_bytes()


def test_a_fail_point_ends_the_process_as_sigkill_does_with_its_hit_in_the_trace(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-c", NODE_THAT_EXITS_AT_A_FAIL_POINT, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (ended.returncode, ended.stdout) == (137, ""), ended.stderr
    trace = (tmp_path / "trace" / "1.jsonl").read_bytes().splitlines()
    assert [event.kind for event in decode_events(trace)] == [EventKind.FAIL_POINT_HIT]


def test_a_node_that_cannot_start_says_so_and_exits_1(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "data").write_bytes(b"a file where the folder belongs")
    assert run_node(Settings(data_folder=str(folder)), NodeThatWaits) == 1
    assert "cannot start" in caplog.text


def test_incarnations_grow_and_survive_a_damaged_counter(tmp_path: Path) -> None:
    assert [raise_incarnation(tmp_path / "new"), raise_incarnation(tmp_path / "new")] == [1, 2]
    (tmp_path / "new" / "incarnation").write_bytes(b"")
    assert raise_incarnation(tmp_path / "new") > 2


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
