"""Jumps of nodes' wall clocks: proven by the nodes' own word, added up, undone, set right."""

from __future__ import annotations

from tarfile import TarInfo
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError, NotFound

from highwater.faults import healing
from highwater.faults.done import NotDone
from highwater.faults.healing import MOVED, Baseline, NodeHealed, NodeSeen
from highwater.faults.processes import clocks
from highwater.faults.processes.clocks import Clocks, is_moved
from highwater.waiting import NeverHappened

NODE = 1


class Node:
    """A node, the file on its volume, and its clock. reads: whether it reads the file again."""

    engine = None

    def __init__(self) -> None:
        self.file: bytes | None = None
        self.state = "running"
        self.reads = True
        self.tells = True
        self.moved_by_ms = 0

    def status(self, node: int) -> str:
        return self.state

    def container_name(self, node: int) -> str:
        return "broker-1"

    def try_snapshot(self, node: int) -> Any:
        told = (("clock_moved_by_ms", self.moved_by_ms),) if self.tells else ()
        return SimpleNamespace(counters=told) if self.state == "running" else None

    def put(self, engine: object, name: str, folder: str, entry: TarInfo, content: bytes) -> None:
        self.file = content
        if self.reads and self.state == "running":
            self.moved_by_ms = round(float(content) * 1000)

    def read(self, cluster: object, node: int, name: str) -> bytes:
        if self.file is None:
            raise NotFound(name)
        return self.file


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    made = Node()
    replaced: dict[str, Any] = {
        "has_movable_clock": lambda cluster, node: True,
        "put_file": made.put,
        "read_node_file": made.read,
        "READ_WITHIN_S": 0.01,
    }
    for name, value in replaced.items():
        monkeypatch.setattr(clocks, name, value)
    return made


def clocks_of(node: Any) -> Clocks:
    return Clocks(node)


def test_jumps_add_up_and_each_is_undone_for_itself(node: Node) -> None:
    own = clocks_of(node)
    first, second = own.jump(NODE, 3_600_000), own.jump(NODE, -86_400_250)
    assert first.proof == "the node's clock is +3600000 ms from the machine's"
    assert second.proof == "the node's clock is -82800250 ms from the machine's"
    assert node.file == b"-82800.250"
    assert first.revert() == "the node's clock is -86400250 ms from the machine's"
    assert second.revert() == "its clock is right"
    assert node.file == b"+0.000"


@pytest.mark.parametrize("wrong", ["reads", "tells"])
def test_a_jump_that_the_node_does_not_tell_is_not_done_and_leaves_nothing(
    wrong: str, node: Node
) -> None:
    """Its process may have no library, or its build tells no clock."""
    setattr(node, wrong, False)
    with pytest.raises(NeverHappened, match=r"node 1 reads a clock that is \+1000 ms from"):
        clocks_of(node).jump(NODE, 1_000)
    assert node.file == b"+0.000"


def test_a_clock_that_cannot_be_moved_is_not_moved(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clocks, "has_movable_clock", lambda cluster, node: False)
    with pytest.raises(NotDone, match="the clock of node 1 is the machine's"):
        clocks_of(node).jump(NODE, 1_000)
    assert node.file is None


@pytest.mark.parametrize("state", ["exited", "paused"])
def test_the_clock_of_a_node_that_stands_still_is_not_moved_but_set_right(
    state: str, node: Node
) -> None:
    own = clocks_of(node)
    jumped = own.jump(NODE, 1_000)
    node.state = state
    with pytest.raises(NotDone, match=f"node 1 is {state}"):
        own.jump(NODE, 1_000)
    assert jumped.revert() == "the node reads its clock when it runs"
    assert node.file == b"+0.000"


def test_a_jump_of_a_node_that_goes_down_before_it_reads_its_clock_is_not_done(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put_and_die(*written: Any) -> None:
        node.state = "exited"
        node.put(*written)

    monkeypatch.setattr(clocks, "put_file", put_and_die)
    with pytest.raises(NotDone, match="node 1 went down before it read its clock"):
        clocks_of(node).jump(NODE, 1_000)
    assert node.file == b"+0.000"


def test_the_end_undoes_a_jump_whose_revert_was_refused(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = clocks_of(node)
    jumped = own.jump(NODE, 1_000)

    def refuse(*written: Any) -> None:
        raise APIError("refused")

    with monkeypatch.context() as patch:
        patch.setattr(clocks, "put_file", refuse)
        with pytest.raises(APIError):
            jumped.revert()
    assert own.end() == []
    assert node.file == b"+0.000"


def test_the_end_sets_right_what_was_not_undone_and_reports_what_it_cannot(node: Node) -> None:
    own = clocks_of(node)
    own.jump(NODE, 1_000)
    node.reads = False
    (problem,) = own.end()
    assert problem.startswith("the clock of node 1: ")
    node.reads = True
    assert own.end() == []
    assert (node.file, node.moved_by_ms) == (b"+0.000", 0)
    assert own.end() == []


def test_healing_finds_a_moved_clock_and_sets_it_right(
    node: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks_of(node).jump(NODE, 1_000)
    assert is_moved(node, NODE)
    for name in ("finish_replacing", "is_ordered", "closed_folders", "has_ballast"):
        monkeypatch.setattr(healing, name, lambda *_: "")
    of_node: Any = SimpleNamespace(
        _cluster=node,
        _baselines={NODE: Baseline("broker-1", "10.0.0.2")},
        _look_at=lambda node: NodeSeen("running", "10.0.0.2", ("broker-1",)),
        _disarm=lambda node, seen: None,
        _remove_rules=lambda node: [],
    )
    healed = NodeHealed(NODE, "broker-1")
    healing._Healing._mend(of_node, healed)
    assert (healed.found, healed.done, healed.left) == ([MOVED], ["its clock is right"], [])
    assert not is_moved(node, NODE)
