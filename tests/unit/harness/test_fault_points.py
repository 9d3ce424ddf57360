"""Fail-points of a plan: armed through restarts, hit or not, and which node is restarted."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from docker.errors import NotFound

from highwater.faults.done import NotDone
from highwater.faults.processes import points
from highwater.faults.processes.points import START_FILE, FailPointFaults, disarm_everything
from highwater.waiting import eventually
from highwater_chaos import faults as f
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind, TraceEvent
from highwater_core.fail_points import BROKER_FAIL_POINTS
from highwater_core.ids import Endpoint
from highwater_core.messages import FailPointAction, SetFailPointRequest
from highwater_core.traces import encode_event

HERE, ELSEWHERE = "before_isr_write", "after_isr_write"
ARM, OFF = FailPointAction.EXIT, FailPointAction.OFF


@dataclass
class FakeCluster:
    """One broker's container as the engine reports it, and its volume."""

    container: dict[str, Any] = field(
        default_factory=lambda: {"Status": "running", "ExitCode": 0, "FinishedAt": ""}
    )
    files: dict[str, bytes] = field(default_factory=dict)
    asked: list[SetFailPointRequest] = field(default_factory=list)
    starts: list[list[str]] = field(default_factory=list)
    """The fail-points that each start armed."""

    @property
    def engine(self) -> Any:
        return SimpleNamespace(api=self)

    def status(self, node: int) -> str:
        return str(self.container["Status"])

    def container_name(self, node: int) -> str:
        return f"broker-{node}"

    def control_endpoint(self, node: int) -> Endpoint:
        return Endpoint("node", node)

    def inspect_container(self, name: str) -> dict[str, Any]:
        return {"State": dict(self.container)}

    def put_archive(self, name: str, folder: str, data: bytes) -> None:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive.getmembers():
                content = archive.extractfile(member)
                assert content is not None
                self.files[f"{folder}/{member.name}"] = content.read()

    def get_archive(self, name: str, path: str) -> tuple[Iterator[bytes], dict[str, Any]]:
        if path not in self.files:
            raise NotFound(path)
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            entry = tarfile.TarInfo(path.rpartition("/")[2])
            entry.size = len(self.files[path])
            tar.addfile(entry, io.BytesIO(self.files[path]))
        return iter([archive.getvalue()]), {}

    # ------------------------------------------------------------ the node's actions

    def start(self, faults: FailPointFaults, node: int) -> None:
        faults.before_start(node)
        laid = self.files.get(f"/var/lib/highwater/{START_FILE}", b"[]")
        self.starts.append([each["name"] for each in msgspec.json.decode(laid)])
        self.container["Status"] = "running"

    def die(self, *events: TraceEvent, at: str = "now") -> None:
        self.files["/var/lib/highwater/incarnation"] = b"1\n"
        lines = [encode_event(event) for event in events]
        self.files["/var/lib/highwater/trace/1.jsonl"] = b"\n".join(lines)
        self.container.update(Status="exited", ExitCode=137, FinishedAt=at)


def hit(action: FailPointAction, name: str = HERE) -> TraceEvent:
    detail = {"name": name, "action": action.value}
    return TraceEvent(0, 1, 1, 5, EventKind.FAIL_POINT_HIT, detail=detail)


OTHER = TraceEvent(0, 1, 1, 4, EventKind.SESSION_OPENED)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    made = FakeCluster()

    def answer(endpoint: Endpoint, request: SetFailPointRequest) -> ErrorCode:
        made.asked.append(request)
        return ErrorCode.NONE

    monkeypatch.setattr(points, "set_fail_point", answer)
    return made


@pytest.fixture
def faults(cluster: FakeCluster) -> Iterator[FailPointFaults]:
    made = FailPointFaults(cluster, lambda node: cluster.start(made, node))  # type: ignore[arg-type]
    yield made
    made.end()


def test_a_crash_is_proven_by_the_last_event_and_the_node_is_started_without_the_point(
    cluster: FakeCluster, faults: FailPointFaults
) -> None:
    done = faults.arm(f.CrashAt("broker-1", HERE, restart_after_ms=0), 1)
    assert (done.proof, done.later()) == (
        "the node's answer: NONE", "never hit: nobody died there",
    )  # fmt: skip
    cluster.die(OTHER, hit(ARM))
    eventually(lambda: cluster.starts, within=10)
    assert (done.later(), cluster.starts) == ("hit: the node died there", [[]])
    assert done.revert() == "hit: the node died there"


def test_a_death_of_another_cause_is_no_hit_and_the_point_is_armed_at_the_next_start(
    cluster: FakeCluster, faults: FailPointFaults
) -> None:
    done = faults.arm(f.CrashAt("broker-1", HERE, restart_after_ms=0), 1)
    cluster.die(hit(ARM, ELSEWHERE), OTHER)
    faults.before_start(1)
    cluster.start(faults, 1)
    assert (done.later(), cluster.starts) == ("never hit: nobody died there", [[HERE]])


def test_who_died_and_is_not_to_start_is_started_in_the_end(
    cluster: FakeCluster, faults: FailPointFaults
) -> None:
    faults.arm(f.CrashAt("broker-1", HERE), 1)
    cluster.die(hit(ARM))
    assert faults.end() == []
    assert cluster.starts == [[]]


def test_one_faults_end_is_not_the_end_of_another_at_the_same_point(
    cluster: FakeCluster, faults: FailPointFaults
) -> None:
    first = faults.arm(f.DelayAt("broker-1", HERE, 10), 1)
    second = faults.arm(f.DelayAt("broker-1", HERE, 20), 1)
    second.revert()
    first.revert()
    assert [(each.action, each.delay_ms) for each in cluster.asked] == [
        (FailPointAction.DELAY, 10), (FailPointAction.DELAY, 20), (FailPointAction.DELAY, 10),
        (OFF, 0),
    ]  # fmt: skip


def test_a_delay_is_over_after_its_count_of_hits_and_not_armed_again_by_a_start(
    cluster: FakeCluster, faults: FailPointFaults
) -> None:
    done = faults.arm(f.DelayAt("broker-1", HERE, 10, count=2), 1)
    assert done.later() == "no hit was reported"
    faults.heard(hit(FailPointAction.DELAY))
    faults.heard(hit(FailPointAction.DELAY, ELSEWHERE))
    cluster.container["Status"] = "exited"
    cluster.start(faults, 1)
    faults.heard(hit(FailPointAction.DELAY))
    assert (done.revert(), cluster.starts) == ("hit 2 times", [[]])
    assert len(cluster.asked) == 1


def test_a_node_that_is_down_arms_the_point_when_it_starts(
    cluster: FakeCluster, faults: FailPointFaults
) -> None:
    cluster.container["Status"] = "exited"
    assert "when it starts" in faults.arm(f.DelayAt("broker-1", HERE, 10), 1).proof
    cluster.start(faults, 1)
    assert (cluster.asked, cluster.starts) == ([], [[HERE]])


def test_a_point_that_the_node_does_not_have_is_not_done(faults: FailPointFaults) -> None:
    with pytest.raises(NotDone, match="no fail-point during_failover"):
        faults.arm(f.CrashAt("broker-1", "during_failover"), 1)


def test_everything_is_disarmed_without_knowing_the_armed_points(cluster: FakeCluster) -> None:
    disarm_everything(cluster, 1)  # type: ignore[arg-type]
    assert [(each.name, each.action) for each in cluster.asked] == [
        (point, OFF) for point in BROKER_FAIL_POINTS
    ]
    assert cluster.files == {f"/var/lib/highwater/{START_FILE}": b"[]"}
