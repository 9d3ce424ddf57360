"""The checks at the end find violations: a sound world is damaged by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from highwater_checker.history import OperationType
from highwater_checker.stories.entries import Entry
from highwater_core.events import EventKind, TraceEvent
from highwater_simulator.files import FileNode
from highwater_simulator.replicas_on_disk import read_replica
from highwater_wire.kafka.record_batch import build_batch
from tests.support.failover_story import ORDERS
from tests.support.verification import values_of, verify


@pytest.fixture
def cluster(make_cluster: Callable[..., Any]) -> Any:
    """A cluster with ten acknowledged records on three replicas."""
    cluster = make_cluster()
    cluster.run(lambda c: c.begin(records=10))
    return cluster


def problems_of(cluster: Any) -> list[str]:
    return verify(cluster.world, cluster.client.history, ORDERS, cluster.world.brokers)


def log_file(cluster: Any, broker_id: int) -> FileNode:
    path = "orders-0/00000000000000000000.log"
    node = cluster.world.brokers[broker_id].disk.find(path)
    assert isinstance(node, FileNode)
    return node


def test_world_that_is_well_has_no_problem(cluster: Any) -> None:
    assert problems_of(cluster) == []
    assert values_of(read_replica(cluster.world, 0, ORDERS)) == [
        (offset, b"order-%04d" % offset) for offset in range(10)
    ]


def test_replica_that_lacks_its_last_record_is_found(cluster: Any) -> None:
    last = read_replica(cluster.world, 1, ORDERS).batches[-1]
    node = log_file(cluster, 1)
    node.truncate(len(node.content) - len(last.data))
    found = problems_of(cluster)
    assert any("broker 1 holds no batch" in problem for problem in found)
    assert any("'order-0009' was acknowledged; there is" in problem for problem in found)


def test_replica_with_another_record_at_an_offset_is_found(cluster: Any) -> None:
    last = read_replica(cluster.world, 2, ORDERS).batches[-1]
    node = log_file(cluster, 2)
    node.truncate(len(node.content) - len(last.data))
    node.content += build_batch([(None, b"other", 0)], last.base_offset, last.leader_epoch)
    found = problems_of(cluster)
    told = "I3: orders-0, offset 9, broker 2: broker 0 holds"
    assert any(problem.startswith(told) for problem in found)
    assert any("'order-0009' was acknowledged; there is 'other'" in each for each in found)


def test_acknowledged_record_that_nobody_has_is_found(cluster: Any) -> None:
    invoked, answered = cluster.client.history[-2:]
    assert answered.type is OperationType.OK
    cluster.client.history += [
        replace(invoked, operation_id=99, value="never"),
        replace(answered, operation_id=99, value="never", offset=10),
    ]
    assert len(problems_of(cluster)) == 3


def test_second_leader_of_an_epoch_is_found(cluster: Any) -> None:
    trace = cluster.world.trace
    led = trace.events(EventKind.BECAME_LEADER)[-1]
    usurper: TraceEvent = replace(led, node=(led.node + 1) % 3)
    trace.entries.append(Entry(0, "broker", usurper))
    found = problems_of(cluster)
    assert len(found) == 1
    assert found[0].startswith(f"I7: orders-0, broker {usurper.node}: brokers")
