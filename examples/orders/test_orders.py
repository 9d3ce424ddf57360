"""Acknowledged orders survive their leader's death, and its network's."""

import pytest
from highwater import create_topic

pytestmark = pytest.mark.highwater(brokers=3, session_timeout_ms=2000, verdict_in=["pass"])


def test_no_order_is_lost_when_the_leader_is_killed(highwater_cluster):
    create_topic(highwater_cluster, "orders", replicas=[(0, 1, 2)])
    orders = highwater_cluster.producer({"acks": "all"})
    highwater_cluster.consumer("orders")  # reads to the end, when the cluster is judged

    with highwater_cluster.fault("kill", node="leader of orders-0"):
        for number in range(200):
            orders.produce("orders", f"order {number}", partition=0)
        assert orders.flush(30) == 0


def test_no_order_is_lost_when_the_leader_is_cut_off(highwater_cluster):
    create_topic(highwater_cluster, "orders", replicas=[(0, 1, 2)])
    orders = highwater_cluster.producer({"acks": "all"})
    highwater_cluster.consumer("orders")

    with highwater_cluster.fault("isolate", node="leader of orders-0"):
        for number in range(200):
            orders.produce("orders", f"order {number}", partition=0)
        assert orders.flush(30) == 0
