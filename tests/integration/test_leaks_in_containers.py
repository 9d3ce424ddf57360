"""A broker that keeps a descriptor more after each round is found to leak, and it alone."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest

from highwater import Topology, create_topic
from highwater.cluster.cluster import Cluster
from highwater.soak.leaks import Leaking, judge_usage
from highwater.soak.round_end import clean_up
from highwater.soak.usage import Sample, take_samples
from highwater_chaos.plan import Plan, Topic, Workload

pytestmark = [pytest.mark.docker, pytest.mark.full]

ROUNDS = 9
LEAKING = 1


def test_a_connection_that_stays_open_after_each_round_is_a_leak_of_its_broker() -> None:
    """It stands for a descriptor that node code forgets; everything else is as it should be."""
    samples: list[Sample] = []
    topology = Topology(brokers=2, controllers=1, session_timeout_ms=2_000)
    with Cluster(topology) as cluster, ExitStack() as kept:
        cluster.start()
        at = cluster.external_endpoint(LEAKING)
        for number in range(1, ROUNDS + 1):
            name = f"t{number}"
            create_topic(cluster, name, partition_count=2, replication_factor=2)
            kept.enter_context(socket.create_connection((at.host, at.port)))
            clean_up(cluster, Plan(1, workload=Workload((Topic(name),), (), ())))
            samples += take_samples(cluster, 1, number, number)
    found = {(each.kind, each.node, each.value): each.says for each in judge_usage(samples)}
    leaks = [what for what, says in found.items() if says is Leaking.LEAK]
    assert leaks == [("broker", LEAKING, "open_files")], samples
    assert Leaking.UNKNOWN not in {says for (kind, _, _), says in found.items() if kind == "broker"}
