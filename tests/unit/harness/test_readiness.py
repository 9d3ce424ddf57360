"""When a cluster serves: one active controller that every node knows, and all brokers known."""

from __future__ import annotations

import dataclasses

import pytest

from highwater.cluster.readiness import first_missing_condition
from highwater.cluster.topology import Topology
from highwater_core.ids import NO_LEADER, ControllerEpoch, NodeId
from highwater_core.messages import NodeSnapshot

TOPOLOGY = Topology(brokers=2, controllers=2)
BROKERS = (NodeId(0), NodeId(1))


def serving() -> dict[NodeId, NodeSnapshot | None]:
    nodes: dict[NodeId, NodeSnapshot | None] = {}
    for node in TOPOLOGY.node_ids:
        nodes[node] = NodeSnapshot(
            node_id=node,
            kind="controller" if node >= 1000 else "broker",
            incarnation=1,
            preset="fenced",
            controller_epoch=ControllerEpoch(1),
            active_controller=node == 1001,
            controller_id=NodeId(1001),
            live_brokers=() if node == 1000 else BROKERS,
        )
    return nodes


def test_nothing_is_missing_when_all_know_all() -> None:
    assert first_missing_condition(TOPOLOGY, serving().get) == ""


@pytest.mark.parametrize("node", TOPOLOGY.node_ids)
def test_every_node_must_answer(node: NodeId) -> None:
    nodes = serving() | {node: None}
    assert f"{node} does not answer" in first_missing_condition(TOPOLOGY, nodes.get)


@pytest.mark.parametrize(
    ("node", "changes", "missing"),
    [
        (1001, {"active_controller": False}, "active controllers: []"),
        (1000, {"active_controller": True, "live_brokers": BROKERS}, "controllers: [1000, 1001]"),
        (1001, {"live_brokers": (NodeId(1),)}, "controller 1001 has not seen brokers [0]"),
        (0, {"live_brokers": (NodeId(0),)}, "broker 0 knows brokers [0]"),
        (1, {"controller_id": NO_LEADER}, "and controller -1"),
        (1, {"controller_id": NodeId(1000)}, "and controller 1000"),
    ],
)
def test_the_first_thing_missing_is_named(
    node: int, changes: dict[str, object], missing: str
) -> None:
    nodes = serving()
    snapshot = nodes[NodeId(node)]
    assert snapshot is not None
    nodes[NodeId(node)] = dataclasses.replace(snapshot, **changes)  # type: ignore[arg-type]
    assert missing in first_missing_condition(TOPOLOGY, nodes.get)
