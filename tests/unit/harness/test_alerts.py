"""Commands without an answer, now and in a run; and the leaderships that a broker's stop moved."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from highwater.cli import make_app
from highwater.cluster.cluster import Cluster
from highwater.cluster.topology import Topology
from highwater.commands.shutdown_broker import Moved, moved_from
from highwater.commands.topics import partition_row, summary
from highwater.report.alerts import Alert, alerts_in, alerts_of
from highwater_checker.looks import Look
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import ControllerEpoch, LeaderEpoch, NodeId, TopicPartition
from highwater_core.messages import NodeSnapshot, UnansweredCommand
from highwater_wire.kafka.messages import MetadataPartition, MetadataTopic
from tests.unit.harness.test_observation import broker, replica

AT = TopicPartition("t", 0)


def timed_out(ts_ns: int, seq: int, broker_id: int) -> TraceEvent:
    return TraceEvent(
        ts_ns,
        1000,
        1,
        seq,
        EventKind.COMMAND_TIMED_OUT,
        controller_epoch=4,
        detail={"broker": broker_id, "request": "StopReplicaRequest"},
    )


def test_a_look_has_a_line_for_each_command_that_waits_too_long() -> None:
    waiting = (UnansweredCommand(NodeId(2), "LeaderAndIsrRequest", 12_345),)
    snapshot = NodeSnapshot(
        NodeId(1000), "controller", 1, "fenced", ControllerEpoch(1), unanswered_commands=waiting
    )
    assert alerts_in(Look(0, {0: None, 1000: snapshot})) == [
        "alert: broker 2 has not answered LeaderAndIsrRequest of controller 1000 for 12.3 s"
    ]


def test_a_runs_alerts_are_shown_once_for_each_broker_and_command() -> None:
    started = TraceEvent(0, 1000, 1, 0, EventKind.NODE_STARTED)
    traces = (started, timed_out(5, 1, 2), timed_out(7, 2, 1), timed_out(9, 3, 2))
    assert alerts_of(traces) == [
        Alert(1000, 4, 2, "StopReplicaRequest", 2, 5, 9),
        Alert(1000, 4, 1, "StopReplicaRequest", 1, 7, 7),
    ]


def test_a_dead_brokers_partitions_are_shown_with_their_leaders_now() -> None:
    before = Look(0, {0: broker(0, replica("leader", 0, 1, (0, 1))), 1: broker(1)})
    after = Look(1, {0: None, 1: broker(1, replica("leader", 1, 2, (1,)))})
    assert moved_from(before, after, 0) == [Moved(AT, 1, 2, (1,))]
    assert moved_from(before, after, 1) == []


def test_a_broker_that_does_not_say_what_it_leads_is_not_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was stopped, and led nothing by what was printed, when it was late by half a second."""
    topology = Topology()
    silent = SimpleNamespace(
        topology=topology,
        node_ids=[spec.node_id for spec in topology.nodes()],
        status=lambda _: "running",
        try_snapshot=lambda _, timeout_s: None,
        terminate=lambda _, within_s: pytest.fail("it was stopped"),
    )
    monkeypatch.setattr(Cluster, "attach", lambda _: silent)
    done = CliRunner().invoke(make_app("shutdown-broker"), ["shutdown-broker", "1"])
    assert "does not answer" in str(done.exception)


def test_partitions_without_a_leader_are_shown_so() -> None:
    following = broker(1, replica("follower", 0, 1, ()))
    before = Look(0, {0: broker(0, replica("leader", 0, 1, (0,))), 1: following})
    assert moved_from(before, Look(1, {0: None, 1: following}), 0) == [Moved(AT, None, 1, (0,))]


def test_a_topics_rows_show_partitions_that_lack_a_leader_or_a_replica() -> None:
    def partition(number: int, leader: int, isr: tuple[int, ...]) -> MetadataPartition:
        replicas = (NodeId(0), NodeId(1))
        ids = tuple(map(NodeId, isr))
        return MetadataPartition(
            ErrorCode.NONE, number, NodeId(leader), LeaderEpoch(3), replicas, ids
        )

    topic = MetadataTopic(ErrorCode.NONE, "t", (partition(0, 0, (0, 1)), partition(1, -1, (1,))))
    assert summary(topic) == {
        "topic": "t", "partitions": 2, "replicas": 2, "without_leader": 1, "under_replicated": 1,
    }  # fmt: skip
    assert partition_row(topic.partitions[1]) == {
        "partition": 1, "leader": None, "leader_epoch": 3, "replicas": [0, 1], "isr": [1],
        "offline": [],
    }  # fmt: skip
