"""Preferred replicas become leaders again by themselves, if so configured (KIP-460)."""

from __future__ import annotations

import json

import pytest

from highwater_core import znodes
from highwater_core.admin_messages import AlterReassignmentsRequest, ReassignmentItem
from highwater_core.errors import ErrorCode
from highwater_core.ids import NodeId, TopicPartition
from tests.unit.controller.isr_joins import join

INTERVAL_MS = 1_000
TOPICS = tuple(f"t{number}" for number in range(4))
"""One partition each, on brokers 0, 1 and 2; 0 is preferred."""


@pytest.fixture
def deposed(cluster):
    """A function: a cluster of such settings whose broker 0 was away, and leads nothing now."""

    def make(**settings):
        for broker in range(3):
            cluster.start_broker(broker)
        cluster.start_controller(1000, leader_imbalance_check_interval_ms=INTERVAL_MS, **settings)
        cluster.settle()
        for name in TOPICS:
            cluster.create_topic(name, (0, 1, 2))
        cluster.settle()
        cluster.brokers[0].die()
        cluster.until(lambda: leaders(cluster) == [1] * 4, "others lead")
        cluster.start_broker(0)
        cluster.settle(100)
        return cluster

    return make


def leaders(cluster):
    return [cluster.state(name).leader for name in TOPICS]


def joined(cluster, *names):
    """Have broker 0 back in the ISR of these topics."""
    for name in names:
        assert join(cluster, 1, 2, 0, at=TopicPartition(name, 0)) is ErrorCode.NONE


def test_the_next_controller_holds_the_elections_of_the_admin_znode(deposed):
    cluster = deposed()
    joined(cluster, *TOPICS)
    cluster.kill_controller(1000)
    named = [znodes.PartitionName(name, 0) for name in (*TOPICS[:2], "none")]
    path = znodes.PREFERRED_REPLICA_ELECTION
    cluster.write(path, znodes.encode(znodes.PartitionsZnode(named)))
    cluster.start_controller(1001)
    cluster.until_failed_over()
    cluster.settle()
    assert leaders(cluster) == [0, 0, 1, 1]
    assert cluster.data(path) is None


def test_a_malformed_election_is_left_out_and_the_others_are_held(deposed):
    cluster = deposed()
    joined(cluster, *TOPICS)
    named = [{"topic": TOPICS[0]}, {"topic": TOPICS[1], "partition": 0}, None]
    path = znodes.PREFERRED_REPLICA_ELECTION
    cluster.write(path, json.dumps({"version": 1, "partitions": named}).encode())
    cluster.settle()
    assert leaders(cluster) == [1, 0, 1, 1]
    assert cluster.data(path) is None


def test_off_by_default(deposed):
    cluster = deposed()
    joined(cluster, *TOPICS)
    cluster.settle(5 * INTERVAL_MS)
    assert leaders(cluster) == [1] * 4


def test_a_preferred_leader_leads_again_once_it_is_in_sync(deposed):
    cluster = deposed(auto_leader_rebalance_enable=True)
    cluster.settle(3 * INTERVAL_MS)
    assert leaders(cluster) == [1] * 4, "it is in no ISR yet"
    joined(cluster, *TOPICS[:2])
    cluster.settle(2 * INTERVAL_MS)
    assert leaders(cluster) == [0, 0, 1, 1]
    joined(cluster, *TOPICS[2:])
    cluster.settle(2 * INTERVAL_MS)
    assert leaders(cluster) == [0] * 4


@pytest.mark.parametrize(("percentage", "leads"), [(49, 0), (50, 1)])
def test_a_share_up_to_the_percentage_is_left_as_it_is(deposed, percentage, leads):
    """Of four partitions two are led by their preferred replica, once two elections were held."""
    cluster = deposed(
        auto_leader_rebalance_enable=True, leader_imbalance_per_broker_percentage=percentage
    )
    joined(cluster, *TOPICS[:2])
    cluster.settle(2 * INTERVAL_MS)
    assert leaders(cluster) == [0, 0, 1, 1]
    joined(cluster, *TOPICS[2:])
    cluster.settle(3 * INTERVAL_MS)
    assert leaders(cluster) == [0, 0, leads, leads]


def test_a_partition_whose_replicas_are_being_moved_is_left_alone(deposed):
    cluster = deposed(auto_leader_rebalance_enable=True)
    cluster.start_broker(3)
    cluster.settle()
    moving = TopicPartition(TOPICS[0], 0)
    target = (NodeId(0), NodeId(3))
    asked = AlterReassignmentsRequest((ReassignmentItem(moving, target),))
    assert cluster.ask(asked).results[0].error is ErrorCode.NONE
    joined(cluster, *TOPICS)
    cluster.settle(3 * INTERVAL_MS)
    assert leaders(cluster) == [1, 0, 0, 0]


def test_a_preferred_replica_that_is_away_is_not_elected(deposed):
    cluster = deposed(auto_leader_rebalance_enable=True)
    joined(cluster, *TOPICS)
    cluster.brokers[0].die()
    cluster.settle(3 * INTERVAL_MS)
    assert 0 not in leaders(cluster)
