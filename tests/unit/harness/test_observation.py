"""Changes between two looks, and the pause that a failover caused."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from highwater.report.failover import longest_gap
from highwater.report.observation import active_controller, changes_between, describe_look
from highwater.report.screen import cluster_table
from highwater_checker.history import Acknowledged
from highwater_checker.looks import Look, leaderships
from highwater_core.ids import (
    ControllerEpoch,
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionEpoch,
    TopicPartition,
)
from highwater_core.messages import NodeSnapshot, ReplicaSnapshot

T0 = TopicPartition("t", 0)


def replica(role: str, leader: int, leader_epoch: int, isr: tuple[int, ...]) -> ReplicaSnapshot:
    return ReplicaSnapshot(
        topic_partition=T0,
        role=role,
        leader=NodeId(leader),
        leader_epoch=LeaderEpoch(leader_epoch),
        controller_epoch=ControllerEpoch(1),
        partition_epoch=PartitionEpoch(0),
        high_watermark=Offset(5),
        log_start_offset=Offset(0),
        log_end_offset=Offset(6),
        isr=tuple(NodeId(broker) for broker in isr),
        assigned_replicas=(NodeId(0), NodeId(1)),
    )


def broker(node_id: int, *replicas: ReplicaSnapshot) -> NodeSnapshot:
    return NodeSnapshot(
        NodeId(node_id), "broker", 1, "fenced", ControllerEpoch(1), replicas=replicas
    )


def controller(node_id: int, controller_epoch: int) -> NodeSnapshot:
    return NodeSnapshot(
        NodeId(node_id),
        "controller",
        1,
        "fenced",
        ControllerEpoch(controller_epoch),
        active_controller=True,
    )


LED_BY_0 = Look(
    1, {0: broker(0, replica("leader", 0, 3, (0, 1))), 1: broker(1), 1000: controller(1000, 1)}
)


def test_the_leader_of_the_highest_epoch_counts_and_a_deposed_one_does_not() -> None:
    look = Look(
        1,
        {
            0: broker(0, replica("leader", 0, 3, (0, 1))),
            1: broker(1, replica("leader", 1, 4, (1,))),
        },
    )
    assert leaderships(look)[T0].leader == 1


def test_the_controller_of_the_highest_epoch_is_active() -> None:
    active = active_controller(Look(1, {1000: controller(1000, 1), 1001: controller(1001, 2)}))
    assert active is not None
    assert active.node_id == 1001


@pytest.mark.parametrize(
    ("after", "kinds"),
    [
        (LED_BY_0, []),
        (Look(2, {0: None, 1: broker(1), 1000: controller(1000, 1)}), ["node_gone"]),
        (
            Look(2, {**LED_BY_0.nodes, 0: broker(0, replica("leader", 0, 3, (0,)))}),
            ["isr_changed"],
        ),
        (
            Look(2, {**LED_BY_0.nodes, 1: broker(1, replica("leader", 1, 4, (1,)))}),
            ["leader_changed"],
        ),
        (Look(2, {**LED_BY_0.nodes, 1000: controller(1000, 2)}), ["controller_elected"]),
    ],
)
def test_changes_are_reported_once(after: Look, kinds: list[str]) -> None:
    assert [change.kind for change in changes_between(LED_BY_0, after)] == kinds


def test_a_node_that_answers_again_is_reported() -> None:
    gone = Look(2, {**LED_BY_0.nodes, 1: None})
    assert [change.kind for change in changes_between(gone, LED_BY_0)] == ["node_answers"]


def acks(*times_s: float) -> list[Acknowledged]:
    return [Acknowledged("t", 0, i, "v", 0, int(t * 1e9)) for i, t in enumerate(times_s)]


def test_the_longest_pause_that_overlaps_the_window_is_the_gap() -> None:
    history = acks(0.0, 5.0, 5.1, 7.1, 7.2, 20.0)
    gap = longest_gap(history, "t", 0, start_ns=int(5.05e9), end_ns=int(7.15e9))
    assert gap is not None
    assert (gap.from_s, gap.to_s) == (5.1, 7.1)
    assert gap.length_s == pytest.approx(2.0)


def test_no_acknowledgement_is_no_gap() -> None:
    assert longest_gap(acks(1.0), "t", 0, start_ns=0, end_ns=10**12) is None


def test_a_look_is_printed_in_a_line() -> None:
    assert describe_look(Look(1, {**LED_BY_0.nodes, 2: None})) == (
        "silent: [2]; controller 1000 of epoch 1 knows brokers [], {}; "
        "led: t-0 by 0 in epoch 3, ISR [0, 1]"
    )
    assert describe_look(Look(1, {})) == "silent: []; no active controller; led: nothing"


@pytest.mark.parametrize(
    ("nodes", "title"),
    [((0, 1000), "no active controller"), ((0, 1), "brokers elect leaders themselves")],
)
def test_the_table_of_a_cluster_says_who_elects(nodes: tuple[int, ...], title: str) -> None:
    printed = io.StringIO()
    Console(width=100, file=printed).print(cluster_table(Look(1, dict.fromkeys(nodes))))
    assert title in printed.getvalue()
