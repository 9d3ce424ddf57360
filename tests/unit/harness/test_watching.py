"""A run and a soak seen from their files: the view, the terminal, the live page."""

from __future__ import annotations

import json
import os
import re
import socket
import urllib.error
import urllib.request
from contextlib import ExitStack
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

from highwater import quiet_http
from highwater.commands.watch import newest
from highwater.errors import HarnessError
from highwater.faults.intents import IntentLog
from highwater.runs.stock.libraries import ClientKind
from highwater.soak.folder import SoakFolder
from highwater.soak.ledger import Entry
from highwater.soak.status import Doing, Status, write_status
from highwater.waiting import eventually
from highwater.watching import serving, view
from highwater.watching.metrics import read_metrics
from highwater.watching.screen import screen_of
from highwater.watching.serving import served
from highwater.watching.view import View, read_view
from highwater_chaos import faults as f
from highwater_checker.looks import Look, encode_look
from highwater_checker.run_folder import names
from highwater_checker.run_folder.intents import Phase
from highwater_checker.verdict import Outcome
from highwater_core.config import Preset
from highwater_core.ids import (
    ControllerEpoch,
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionEpoch,
    TopicPartition,
)
from highwater_core.messages import NodeSnapshot, ReplicaSnapshot
from highwater_core.prometheus import CONTENT_TYPE

S = 1_000_000_000
WITHIN_S = 30


def replica(role: str, end: int) -> ReplicaSnapshot:
    return ReplicaSnapshot(
        topic_partition=TopicPartition("t", 0),
        role=role,
        leader=NodeId(0),
        leader_epoch=LeaderEpoch(3),
        controller_epoch=ControllerEpoch(1),
        partition_epoch=PartitionEpoch(0),
        high_watermark=Offset(end - 1),
        log_start_offset=Offset(0),
        log_end_offset=Offset(end),
        isr=(NodeId(0), NodeId(1)) if role == "leader" else (),
        assigned_replicas=(NodeId(0), NodeId(1)),
    )


def look(time_s: int, end: int, leader: str = "leader") -> Look:
    """Return a look at two brokers, a controller that is active, and a silent one."""
    brokers = {
        number: NodeSnapshot(
            node_id=NodeId(number),
            kind="broker",
            incarnation=1 + number,
            preset="fenced",
            controller_epoch=ControllerEpoch(1),
            replicas=(replica(leader if number == 0 else "follower", end),),
            resident_bytes=50 * 2**20,
            counters=(("open_files", 12),),
        )
        for number in (0, 1)
    }
    active = NodeSnapshot(
        NodeId(1000), "controller", 1, "fenced", ControllerEpoch(1), active_controller=True
    )
    return Look(time_s * S, {**brokers, 1000: active, 1001: None})


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run-a"
    folder.mkdir()
    lines = [encode_look(look(second, 100 * second + 1)) + b"\n" for second in (1, 2, 3)]
    (folder / names.LOOKS).write_bytes(b"".join(lines))
    return folder


def say(view: View) -> str:
    console = Console(width=80)
    with console.capture() as printed:
        console.print(screen_of(view))
    return printed.get()


def test_a_view_has_the_last_looks_leaders_offsets_and_rates(run: Path) -> None:
    view = read_view(run)
    assert (view.run, view.time_s, view.records_per_s) == ("run-a", 3.0, 100.0)
    (partition,) = view.partitions
    assert (partition.leader, partition.leader_epoch, partition.isr) == (0, 3, (0, 1))
    assert [(r.broker, r.high_watermark, r.log_end_offset) for r in partition.replicas] == [
        (0, 300, 301),
        (1, 300, 301),
    ]
    assert [(n.name, n.incarnation, n.is_active) for n in view.nodes] == [
        ("broker-0", 1, False),
        ("broker-1", 2, False),
        ("controller-1000", 1, True),
        ("controller-1001", -1, False),
    ]
    assert view.nodes[0].open_files == 12


def test_a_line_that_is_being_written_and_damage_hide_nothing_else(run: Path) -> None:
    whole = (run / names.LOOKS).read_bytes()
    (run / names.LOOKS).write_bytes(whole + b'{"time_ns": 4, "no')
    assert read_view(run).time_s == 3.0
    (run / names.LOOKS).write_bytes(b"garbage\n" + whole)
    assert read_view(run).time_s == 3.0
    (run / names.LOOKS).write_bytes(b"")
    assert read_view(run).partitions == ()


def test_looks_that_are_longer_than_the_tail_are_shown(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found: at a thousand partitions the page was empty, and Prometheus had no cluster."""
    monkeypatch.setattr(view, "TAIL_BYTES", 100)
    assert len((run / names.LOOKS).read_bytes().splitlines()[-1]) > 100
    found = read_view(run)
    assert (found.time_s, found.records_per_s) == (3.0, 100.0)


def test_a_partition_that_nobody_leads_says_so(run: Path) -> None:
    (run / names.LOOKS).write_bytes(encode_look(look(1, 5, leader="taking over")) + b"\n")
    view = read_view(run)
    assert view.partitions[0].leader == -1
    assert "none" in say(view)


def test_faults_without_an_end_act(run: Path) -> None:
    log = IntentLog(run / names.INTENTS, lambda: 5)
    log.begin(f.Pause("broker-0", 900))
    log.write(log.begin(f.Kill("broker-1", 900)), Phase.REVERTED)
    log.close()
    (words,) = read_view(run).faults
    assert "pause broker-0" in words


def soak_of(folder: Path) -> Path:
    """Make a soak's folder of the run's folder, with one plan that passed and one that failed."""
    soak = folder.parent / "soak"
    (soak / "runs").mkdir(parents=True)
    folder.rename(soak / "runs" / folder.name)
    done = {Outcome.PASS: 1, Outcome.FAIL: 1, Outcome.UNKNOWN: 0}
    running = Status(
        Doing.RUNNING, "", 3, folder.name, 90.0, 28_800.0, done, (2,), "", leaks=("broker 0",)
    )
    write_status(soak / "status.json", running)
    entries = [
        Entry(
            number, 5, Preset.FENCED, ClientKind.OWN, 3, 2, 9, outcome, "", "", 45.0, 1.5,
            invariants=() if outcome is Outcome.PASS else ("I1",),
        )
        for number, outcome in ((1, Outcome.PASS), (2, Outcome.FAIL))
    ]  # fmt: skip
    (soak / "done.jsonl").write_bytes(
        b"".join(msgspec.json.encode(each) + b"\n" for each in entries)
    )
    return soak


def test_a_soaks_view_has_its_present_run_and_its_last_plans(run: Path) -> None:
    view = read_view(soak_of(run))
    assert view.soak is not None
    assert (view.run, view.soak.plan) == ("run-a", 3)
    assert [entry.number for entry in view.last] == [2, 1]
    text = say(view)
    assert "1 fail" in text
    assert "leak: broker 0" in text
    (finding,) = view.findings
    command = f"highwater run {run.parent}/soak/plans/00002.json --world docker --client own"
    assert (finding.plan, finding.invariants, finding.command) == (2, ("I1",), command)
    assert "plan 2 violated I1:" in text
    assert "not answering: controller-1001" in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_a_soak_that_was_killed_is_not_said_to_run(run: Path) -> None:
    """Found: after kill -9 or a reboot the page said "running" for ever."""
    soak = SoakFolder(soak_of(run))
    with soak.locked():
        assert not read_view(soak.path).is_abandoned
    view = read_view(soak.path)
    assert view.is_abandoned
    assert "no process runs it" in say(view)
    assert view.soak is not None
    write_status(soak.status, msgspec.structs.replace(view.soak, doing=Doing.DONE))
    assert not read_view(soak.path).is_abandoned


def get(address: str) -> Any:
    return urllib.request.urlopen(address, timeout=WITHIN_S)  # noqa: S310 - our own server


def test_the_page_its_events_and_its_json_are_served(run: Path) -> None:
    with served("127.0.0.1", 0, run) as address:
        with get(address) as page:
            assert "EventSource" in page.read().decode()
        with get(f"{address}view.json") as answer:
            assert json.load(answer)["records_per_s"] == 100.0
        with get(f"{address}events") as stream:
            line = stream.readline()
            assert line.startswith(b"data: ")
            assert json.loads(line.removeprefix(b"data: "))["run"] == "run-a"
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(f"{address}etc/passwd")
    with pytest.raises(urllib.error.URLError, match="refused"):
        get(address)


def test_prometheus_gets_the_soak_its_run_and_the_runs_nodes_from_one_address(run: Path) -> None:
    with served("127.0.0.1", 0, soak_of(run)) as address, get(f"{address}metrics") as answer:
        assert answer.headers["Content-Type"] == CONTENT_TYPE
        text = answer.read().decode()
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found["highwater_soak_running",] == 1
    assert found["highwater_soak_plan",] == 3
    assert found["highwater_soak_leaks",] == 1
    assert found["highwater_soak_plans", "fail"] == 1
    assert found["highwater_run_records_per_second",] == 100.0
    assert found["highwater_node_up", "broker-0"] == 1
    assert found["highwater_node_up", "controller-1001"] == 0


def test_a_run_that_is_over_or_has_no_looks_has_no_metrics(tmp_path: Path, run: Path) -> None:
    """Found: the nodes of a soak that had ended were up for ever."""
    assert read_metrics(tmp_path) == ""
    assert "highwater_node_up" in read_metrics(run)
    long_ago_s = 1_000_000_000
    os.utime(run / names.LOOKS, (long_ago_s, long_ago_s))
    assert read_metrics(run) == ""
    of_soak = read_metrics(soak_of(run))
    assert "highwater_soak_plan{} 3\n" in of_soak
    assert "highwater_run" not in of_soak
    assert "highwater_node" not in of_soak


def test_too_many_open_pages_are_refused(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MOST_READERS", 1)
    with served("127.0.0.1", 0, run) as address:
        with get(f"{address}events") as stream:
            stream.readline()
            with pytest.raises(urllib.error.HTTPError, match="503"):
                get(f"{address}events")
        with get(f"{address}view.json") as answer:
            assert answer.status == 200


def test_a_reader_with_many_connections_takes_no_more_than_the_servers_room(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found: a thousand idle ones took all descriptors of the soak that serves beside its work."""
    monkeypatch.setattr(quiet_http, "MOST_AT_ONCE", 2)
    with served("127.0.0.1", 0, run) as address, ExitStack() as opened:
        place = "127.0.0.1", int(address.split(":")[2].strip("/"))
        idle = [opened.enter_context(socket.create_connection(place)) for _ in range(2)]
        refused = opened.enter_context(socket.create_connection(place, WITHIN_S))
        assert refused.recv(1) == b"", "closed without an answer"
        for each in idle:
            each.close()
        eventually(lambda: _answers(address), within=WITHIN_S, what="the page is served again")


def _answers(address: str) -> bool:
    try:
        with get(f"{address}view.json") as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_an_address_in_use_is_told(run: Path) -> None:
    with served("127.0.0.1", 0, run) as address:
        port = int(address.split(":")[2].strip("/"))
        with (
            pytest.raises(HarnessError, match="cannot listen"),
            served("127.0.0.1", port, run),
        ):
            pass


def test_the_page_takes_nothing_from_elsewhere() -> None:
    page = files("highwater.watching").joinpath("templates/live.html").read_text("utf-8")
    assert not re.search(r"https?://|src=|@import|url\(", page)


def test_what_was_begun_last_is_watched(tmp_path: Path, run: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    with pytest.raises(HarnessError, match="nothing runs"):
        newest(runs)
    (runs / "latest").symlink_to(run)
    assert newest(runs) == runs / "latest"
