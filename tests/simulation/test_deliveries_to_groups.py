"""Members of a group get each record that they commit: judged by histories, without the oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from highwater_checker.finding import CheckResult
from highwater_checker.history import sends_of
from highwater_checker.invariants.committed_offsets import check_committed_offsets
from highwater_checker.invariants.deliveries import check_deliveries
from highwater_client.group_reader import GroupReader, GroupReaderSettings
from highwater_planted import planted
from highwater_simulator.replicas_on_disk import read_replica
from tests.support.failover_story import ORDERS
from tests.support.members import BROKER_SETTINGS

Cluster = Any
MakeCluster = Callable[..., Cluster]


def read_by_a_member_that_goes_and_comes(make_cluster: MakeCluster) -> tuple[CheckResult, Any]:
    """Return the results of the checks of deliveries and of committed offsets."""
    cluster = make_cluster(broker_settings=BROKER_SETTINGS)
    client = cluster.world.client("member-0")
    settings = GroupReaderSettings("g", ORDERS.topic, commit_every_ms=100, stays_ms=4_000)
    member = GroupReader(client.runtime, client.transport, client.bootstrap, settings)

    async def story() -> None:
        await cluster.begin()
        client.runtime.scope("member").spawn("Member", member.run())
        for _ in range(6):
            await cluster.world.sleep(3_000)
            await cluster.send(10)
        await cluster.world.sleep(10_000)

    cluster.world.run(story(), 900_000)
    acknowledged = sends_of(cluster.client.history).acknowledged
    logs = [read_replica(cluster.world, broker, ORDERS) for broker in cluster.world.brokers]
    events = member.history
    return check_deliveries(events, acknowledged, logs), check_committed_offsets(events)


def test_a_group_gets_all_that_it_commits_once(make_cluster: MakeCluster) -> None:
    deliveries, offsets = read_by_a_member_that_goes_and_comes(make_cluster)
    assert (deliveries.findings, offsets.findings) == ((), ())
    assert deliveries.examined >= 2 * 80


def test_a_record_that_is_skipped_by_a_wrong_committed_offset_is_found(
    make_cluster: MakeCluster,
) -> None:
    with planted("offset_told_too_high"):
        deliveries, offsets = read_by_a_member_that_goes_and_comes(make_cluster)
    assert {each.invariant for each in deliveries.findings} == {"I22"}
    assert "no member had it" in deliveries.findings[0].message
    assert {each.invariant for each in offsets.findings} == {"I14"}
