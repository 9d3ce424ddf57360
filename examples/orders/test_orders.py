"""Acknowledged orders survive their leader's death, and followers that cannot reach it."""

import pytest
from highwater import create_topic

pytestmark = pytest.mark.highwater(brokers=3, session_timeout_ms=2000, verdict_in=["pass"])


def test_no_order_is_lost_when_the_leader_is_killed(highwater_cluster):
    create_topic(highwater_cluster, "orders", replicas=[(0, 1, 2)])
    orders = highwater_cluster.producer({"acks": "all"})
    highwater_cluster.consumer("orders")  # reads to the end, when the cluster is judged

    with highwater_cluster.fault("kill", node="leader of orders-0"):
        send(orders, 200)


def test_no_order_is_lost_when_no_follower_reaches_the_leader(highwater_cluster):
    create_topic(highwater_cluster, "orders", replicas=[(0, 1, 2)])
    orders = highwater_cluster.producer({"acks": "all"})
    highwater_cluster.consumer("orders")

    cut = {"source": "any", "target": "leader of orders-0", "plane": "replication"}
    with highwater_cluster.fault("cut", **cut):
        send(orders, 200)


def send(orders, count):
    """Send so many orders, and wait until each is acknowledged."""
    errors = []
    for number in range(count):
        orders.produce(
            "orders", f"order {number}", partition=0, on_delivery=lambda e, m: errors.append(e)
        )
    assert orders.flush(120) == 0
    assert errors == [None] * count
