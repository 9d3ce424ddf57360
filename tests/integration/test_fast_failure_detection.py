"""On containers a broker's death is known by its connection, long before its session ends."""

from __future__ import annotations

import pytest

from highwater import JudgedCluster, create_topic
from highwater_checker.run_folder import names
from highwater_checker.run_folder.lines import read_traces
from highwater_core.events import EventKind

pytestmark = pytest.mark.docker
SESSION_MS = 60_000
WITHIN_S = 40
"""Before the session ends, and long after an election on a busy machine."""


@pytest.mark.highwater(
    controllers=1,
    session_timeout_ms=SESSION_MS,
    toggles={"fast_failure_detection": True},
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
    cluster.collect_live(cluster.folder)
    traced = read_traces(cluster.folder / names.TRACE)
    suspected = [e.detail["broker"] for e in traced if e.kind is EventKind.BROKER_SUSPECTED]
    assert suspected == [0]
    elected = {
        event.topic_partition: event.detail["selector"]
        for event in traced
        if event.kind is EventKind.LEADER_ELECTED and event.topic == "orders"
    }
    assert list(elected.values()) == ["suspected", "initial"]
