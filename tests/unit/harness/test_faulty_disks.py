"""Orders of faulty disks: of several faults, of nodes that stand still, and torn ones."""

from __future__ import annotations

import json
from tarfile import TarInfo
from typing import Any

import pytest
from docker.errors import NotFound

from highwater.faults.disks import faulty_disks
from highwater.faults.disks.faulty_disks import ANSWER, ORDERS, FaultyDisks, is_ordered, make_sound
from highwater.faults.done import NotDone
from highwater.waiting import NeverHappened
from highwater_chaos.faults import DiskOperation

NODE = 2


class Broker:
    """A broker's volume, and the process that serves its disk."""

    engine = None

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.state = "running"
        self.processes = "S"
        self.refused = "EIO"
        self.serves = True
        self._refused: dict[str, int] = {}

    def status(self, node: int) -> str:
        return self.state

    def container_name(self, node: int) -> str:
        return "broker"

    def read(self, cluster: object, node: int, name: str) -> bytes:
        if name not in self.files:
            raise NotFound(name)
        return self.files[name]

    def put(self, engine: object, name: str, folder: str, entry: TarInfo, content: bytes) -> None:
        self.files[entry.name] = content
        if self.serves and self.state == "running" and self.processes != "T":
            number = json.loads(content)["number"]
            self._answer(number)

    def _answer(self, number: int) -> None:
        answer = {"number": number, "refused": self._refused, "delayed": 0}
        self.files[ANSWER] = json.dumps(answer).encode()

    @property
    def refused_so_far(self) -> dict[str, int]:
        return self._refused

    @refused_so_far.setter
    def refused_so_far(self, refused: dict[str, int]) -> None:
        self._refused = refused
        self._answer(json.loads(self.files[ORDERS])["number"])

    @property
    def within(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(self.files[ORDERS])["within"]
        return found

    @property
    def percent(self) -> dict[str, int]:
        found: dict[str, int] = json.loads(self.files[ORDERS])["percent"]
        return found


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    made = Broker()
    replaced: dict[str, Any] = {
        "has_faulty_disk": lambda cluster, node: True,
        "read_node_file": made.read,
        "put_file": made.put,
        "newest_trace": lambda cluster, node: [],
        "process_states": lambda engine, name: (made.processes,),
        "_probe": lambda *asked: faulty_disks._Probed(made.refused, 1, 0),
        "ANSWERED_WITHIN_S": 0.01,
    }
    for name, value in replaced.items():
        monkeypatch.setattr(faulty_disks, name, value)
    return made


@pytest.fixture
def disks(broker: Any) -> FaultyDisks:
    return FaultyDisks(broker, lambda node: None, lambda node: "running")


def test_the_end_of_one_of_two_faults_of_an_operation_does_not_end_the_other(
    disks: FaultyDisks, broker: Broker
) -> None:
    first = disks.refuse(NODE, DiskOperation.SYNC, 50)
    second = disks.refuse(NODE, DiskOperation.SYNC, 100)
    first.revert()
    assert broker.percent == {"sync": 100}
    second.revert()
    assert broker.percent == {}


def test_of_two_faults_of_an_operation_the_last_says_which_files(
    disks: FaultyDisks, broker: Broker
) -> None:
    first = disks.refuse(NODE, DiskOperation.READ, 50, "t-0/")
    assert broker.within == {"read": "t-0/"}
    second = disks.refuse(NODE, DiskOperation.READ, 100)
    assert broker.within == {"read": ""}
    second.revert()
    assert broker.within == {"read": "t-0/"}
    first.revert()
    assert broker.within == {}


@pytest.mark.parametrize(
    ("within", "refused", "acted"), [("", 0, True), ("t-0/", 0, False), ("t-0/", 2, True)]
)
def test_errors_of_chosen_files_act_once_the_broker_meets_them(
    within: str, refused: int, acted: bool, disks: FaultyDisks, broker: Broker
) -> None:
    """A probe meets them in any case, also where no file has that name."""
    refusing = disks.refuse(NODE, DiskOperation.READ, 100, within)
    broker.refused_so_far = {"read": refused}
    refusing.revert()
    assert refusing.has_acted() == acted


@pytest.mark.parametrize(("state", "processes"), [("paused", "S"), ("running", "T")])
def test_a_fault_of_a_node_that_stands_still_ends_without_its_answer(
    state: str, processes: str, disks: FaultyDisks, broker: Broker
) -> None:
    refusing = disks.refuse(NODE, DiskOperation.SYNC, 100)
    broker.state, broker.processes = state, processes
    seen = refusing.revert()
    assert seen == (
        "0 operations to sync refused since then; the node takes its orders when it runs"
    )
    assert broker.percent == {}


@pytest.mark.parametrize(("state", "processes"), [("paused", "S"), ("running", "T")])
def test_a_fault_of_a_node_that_stands_still_is_not_begun(
    state: str, processes: str, disks: FaultyDisks, broker: Broker
) -> None:
    broker.state, broker.processes = state, processes
    with pytest.raises(NotDone, match="node 2 is down, or stands still"):
        disks.refuse(NODE, DiskOperation.SYNC, 100)
    assert broker.percent == {}


def test_orders_of_a_fault_that_is_not_seen_to_act_are_taken_back(
    disks: FaultyDisks, broker: Broker
) -> None:
    broker.refused = ""
    with pytest.raises(NotDone, match="none was refused"):
        disks.refuse(NODE, DiskOperation.SYNC, 100)
    assert broker.percent == {}


def test_orders_that_a_dead_disk_does_not_answer_are_taken_back(
    disks: FaultyDisks, broker: Broker
) -> None:
    broker.serves = False
    with pytest.raises(NeverHappened, match="the disk of node 2 answers orders"):
        disks.refuse(NODE, DiskOperation.SYNC, 100)
    assert broker.percent == {}


def test_torn_orders_count_until_there_are_whole_ones(broker: Any) -> None:
    """A harness was killed while it wrote: the disk does what it was told before."""
    assert not is_ordered(broker, NODE)
    broker.files[ANSWER] = b'{"number": 4, "refused": {}, "delayed": 0}'
    for torn in (b"", b'{"number": 5', b"[]", b'{"number": 5}'):
        broker.files[ORDERS] = torn
        assert is_ordered(broker, NODE)
    assert make_sound(broker, NODE) == 5
    assert not is_ordered(broker, NODE)
