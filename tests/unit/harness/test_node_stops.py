"""A node that is stopped by SIGSTOP and frozen at once runs again when both are over."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.faults.done import NotDone
from highwater.faults.processes import nodes
from highwater.faults.processes.nodes import NodeFaults
from highwater_chaos import faults as f


class Node:
    """One node of a cluster, as engine and kernel report it."""

    engine = None

    def __init__(self) -> None:
        self.word = "running"
        self.states: tuple[str, ...] = ("S",)

    def status(self, node: int) -> str:
        return self.word

    def container_name(self, node: int) -> str:
        return "broker-1"

    def pause(self, node: int) -> None:
        self.word = "paused"

    def unpause(self, node: int) -> None:
        self.word = "running"

    def signal(self, state: str) -> None:
        if self.word == "paused":
            raise NotDone("exec is refused while it is frozen")
        self.states = (state,)


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    node = Node()
    monkeypatch.setattr(nodes, "process_states", lambda engine, name: node.states)
    monkeypatch.setattr(nodes, "stop_processes", lambda engine, name: node.signal("T"))
    monkeypatch.setattr(nodes, "resume_processes", lambda engine, name: node.signal("S"))
    return node


@pytest.fixture
def faults(node: Node) -> NodeFaults:
    cluster: Any = node
    return NodeFaults(cluster, lambda node: None)


FREEZER = f.Pause("broker-1")
SIGSTOP = f.Pause("broker-1", by=f.PauseBy.SIGSTOP)


def test_a_node_is_stopped_and_goes_on(faults: NodeFaults, node: Node) -> None:
    done = faults.pause(SIGSTOP, {"broker-1": 1}.get)
    assert (done.node, done.proof, node.states) == (1, "1 processes in state T", ("T",))
    with pytest.raises(NotDone, match="stopped already"):
        faults.pause(SIGSTOP, {"broker-1": 1}.get)
    assert done.revert() == "1 processes, none in state T"
    assert node.states == ("S",)


def test_stopped_and_frozen_it_goes_on_after_the_longer_of_both(
    faults: NodeFaults, node: Node
) -> None:
    stopped = faults.pause(SIGSTOP, {"broker-1": 1}.get)
    frozen = faults.pause(FREEZER, {"broker-1": 1}.get)
    assert "go on after it" in stopped.revert()
    assert node.states == ("T",)
    assert frozen.revert() == "running"
    assert node.states == ("S",)


def test_unfrozen_it_is_stopped_still(faults: NodeFaults, node: Node) -> None:
    faults.pause(SIGSTOP, {"broker-1": 1}.get)
    faults.pause(FREEZER, {"broker-1": 1}.get).revert()
    assert (node.word, node.states) == ("running", ("T",))
    for way_back in faults.ways_back():
        way_back()
    assert node.states == ("S",)


def test_a_node_that_was_killed_meanwhile_has_nothing_to_go_on_with(
    faults: NodeFaults, node: Node
) -> None:
    done = faults.pause(SIGSTOP, {"broker-1": 1}.get)
    node.word = "exited"
    assert done.revert() == "exited"
