"""A controller's time for a failover grows with partitions divided by the pipeline's depth."""

from __future__ import annotations

import pytest

from bench.scale_simulated import Cost, measure

FEW, MANY = 20, 200
BROKERS = 3
AT_ONCE = 10
"""Requests in flight, as in Apache Kafka (zookeeper.max.in.flight.requests)."""
ROUND_TRIP_MS = 3.0
"""More than one round trip to ZooKeeper in the simulated network."""


def costs(partitions: int, topics: int = 1) -> dict[str, Cost]:
    return {cost.name: cost for cost in measure(topics, partitions // topics, BROKERS)}


@pytest.mark.parametrize("a_topic_each", [False, True])
def test_round_trips_to_zookeeper_are_pipelined(a_topic_each: bool) -> None:
    few, many = (costs(count, count if a_topic_each else 1) for count in (FEW, MANY))
    a_failover = 3 if a_topic_each else 1
    for name, per_partition in (("the controller fails over", a_failover), ("a broker dies", 4)):
        added = many[name].operations - few[name].operations
        assert 0 < added <= per_partition * (MANY - FEW)
        took_ms = many[name].decided_ms - few[name].decided_ms
        assert took_ms < ROUND_TRIP_MS * (added / AT_ONCE + 1)


def test_every_leadership_of_a_dead_broker_moves_and_comes_into_a_few_commands() -> None:
    cost = costs(MANY)["a broker dies"]
    assert 0 < cost.commands < 20
    assert cost.acted_ms > 0
