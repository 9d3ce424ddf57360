"""On containers a broker's death is known by its connection, long before its session ends."""

from __future__ import annotations

import pytest

from highwater import JudgedCluster, create_topic, eventually
from highwater_checker.run_folder import names
from highwater_checker.run_folder.lines import read_traces
from highwater_core.events import EventKind, TraceEvent

pytestmark = pytest.mark.docker
TOGGLES = {"fast_failure_detection": True}
SESSION_MS = 60_000
WITHIN_S = 40
"""Before the session ends, and long after an election on a busy machine."""


@pytest.mark.highwater(
    controllers=1,
    session_timeout_ms=SESSION_MS,
    toggles=TOGGLES,
    verdict_in=["pass"],
)
def test_a_killed_leader_and_a_killed_follower_hold_up_no_producer_for_a_session(
    highwater_cluster: JudgedCluster,
) -> None:
    cluster = highwater_cluster
    create_topic(cluster, "orders", replicas=[(0, 1, 2), (1, 2, 0)])
    producer = cluster.producer({"acks": "all"})
    for number in range(200):
        if number == 100:
            cluster.kill(0)
        producer.produce("orders", f"order {number}", partition=number % 2)
    assert producer.flush(WITHIN_S) == 0
    traced = events(cluster)
    assert suspected(traced) == [0]
    elected = {
        event.topic_partition: event.detail["selector"]
        for event in traced
        if event.kind is EventKind.LEADER_ELECTED and event.topic == "orders"
    }
    assert list(elected.values()) == ["suspected", "initial"]


@pytest.mark.highwater(controllers=1, toggles=TOGGLES, verdict_in=["pass", "unknown"])
def test_a_broker_that_its_controller_cannot_reach_is_not_suspected(
    highwater_cluster: JudgedCluster,
) -> None:
    """Found: five seconds after an unacknowledged command the kernel breaks the connection."""
    cluster = highwater_cluster
    create_topic(cluster, "orders", replicas=[(2, 0, 1)])
    with cluster.fault("cut", source="controller-1000", target="broker-2", plane="control"):
        create_topic(cluster, "late", replicas=[(0,)])  # a command that goes to every broker
        eventually(lambda: cluster.snapshot(1000).unanswered_commands, within=60)
    traced = events(cluster)
    assert suspected(traced) == []
    led = [each for each in traced if each.kind is EventKind.BECAME_LEADER]
    assert [each.node for each in led if each.topic == "orders"] == [2]


def events(cluster: JudgedCluster) -> tuple[TraceEvent, ...]:
    cluster.collect_live(cluster.folder)
    return read_traces(cluster.folder / names.TRACE)


def suspected(traced: tuple[TraceEvent, ...]) -> list[int]:
    return [each.detail["broker"] for each in traced if each.kind is EventKind.BROKER_SUSPECTED]
