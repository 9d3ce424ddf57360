"""Clusters without a controller: brokers elect leaders themselves (preset v2)."""

from __future__ import annotations

import pytest

from highwater_chaos import faults as f
from highwater_chaos.plan import Plan, PlanTopology, Step
from highwater_core.config import Preset
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.first_design_znodes import (
    LeaderPath,
    StateChange,
    StateChangeRequest,
    encode_leader,
    encode_request,
    leader_path,
    queue_path,
    request_prefix,
)
from highwater_core.ids import ControllerEpoch, TopicPartition
from highwater_core.znodes import PartitionLeadership, encode_partition_state, partition_state_path
from highwater_simulator.runner import run_plan
from highwater_simulator.search import find
from tests.support.first_design_cluster import AT, WITHIN_MS, Cluster


def test_no_controller_is_there_and_another_broker_takes_over_when_the_leader_dies() -> None:
    async def story(c: Cluster) -> None:
        assert not c.world.controllers
        assert await c.send("a") == "NONE"
        old = await c.killed()
        assert await c.send("b") == "NONE"
        c.world.start(old)
        await c.in_sync()
        assert await c.send("c") == "NONE"
        await c.until(lambda: c.queue(old) == [], "its queue is read")
        assert await c.values() == ["a", "b", "c"]

    cluster = Cluster()
    cluster.run(story)
    elected = cluster.told(EventKind.LEADER_ELECTED)
    assert [each.leader_epoch for each in elected] == [0, 1]
    assert not any(each.detail["unclean"] for each in elected)


def test_a_leader_that_takes_over_says_so_and_is_called_leader_once_it_serves_clients() -> None:
    def role(c: Cluster, broker: int) -> str:
        replica = c.world.replica(broker, AT)
        return replica.role if replica else ""

    async def story(c: Cluster) -> None:
        assert await c.send("a") == "NONE"
        old = c.leader()
        new, other = (each for each in c.world.brokers if each != old)
        c.world.pause(other)
        c.world.request_stop(old)  # its session ends at once, while the other one lives
        await c.until(lambda: role(c, new) == "taking over", "it waits for the paused one")
        await c.until(lambda: role(c, new) == "leader", "it has taken over")
        assert c.serves(new)

    Cluster(session_timeout_ms=9_000, keep_in_sync_time_ms=4_000).run(story)


def test_a_leader_that_stops_cleanly_gives_the_path_up_at_once() -> None:
    async def story(c: Cluster) -> None:
        old = c.leader()
        c.world.request_stop(old)
        await c.world.eventually(lambda: c.leader() not in (-1, old), 800, "another one leads")

    Cluster(session_timeout_ms=30_000).run(story)


def test_a_broker_that_returns_reads_its_queue_first_and_deletes_what_it_lost() -> None:
    async def story(c: Cluster) -> None:
        old = await c.killed()
        assert await c.client.delete_topic("t", WITHIN_MS) is ErrorCode.NONE
        assert await c.client.create_topic("t", 1, 2, within_ms=WITHIN_MS) is ErrorCode.NONE
        assert await c.send("of the second topic") == "NONE"
        assert len(c.queue(old)) == 1
        c.world.start(old)
        await c.until(lambda: c.queue(old) == [], "its queue is read")
        assert c.world.hosted(old, AT) is None
        assert not c.world.brokers[old].disk.replica_folders("t-0")
        assert await c.values() == ["of the second topic"]

    Cluster().run(story)


def test_a_topic_without_counts_gets_the_brokers_defaults() -> None:
    async def story(c: Cluster) -> None:
        assert await c.client.create_topic("d", -1, -1, within_ms=WITHIN_MS) is ErrorCode.NONE
        refused = await c.client.create_topic("e", 0, 1, within_ms=WITHIN_MS)
        assert refused is ErrorCode.INVALID_PARTITIONS

    cluster = Cluster(num_partitions=2, default_replication_factor=3)
    cluster.run(story)
    created = [e for e in cluster.told(EventKind.TOPIC_CREATED) if e.topic == "d"]
    assert [[len(each) for each in event.detail["assignment"]] for event in created] == [[3, 3]]


def test_a_full_queue_is_shrunk_and_then_refused() -> None:
    async def story(c: Cluster) -> None:
        old = await c.killed()
        for number in range(4):
            closing = StateChangeRequest(
                StateChange.CLOSE_REPLICA,
                TopicPartition("gone", number),
                0,  # type: ignore[arg-type]
            )
            path, data = request_prefix(old), encode_request(closing)  # type: ignore[arg-type]
            await c.hand.create(path, data, sequential=True)
            await c.hand.create(path, b"garbage", sequential=True)
        assert await c.client.delete_topic("t", WITHIN_MS) is not ErrorCode.NONE
        assert len(c.queue(old)) == 4
        refused = c.told(EventKind.REQUEST_REFUSED)[-1]
        assert "FollowerStateChangeQueueFull" in refused.detail["message"]

    Cluster(state_change_queue_max_requests=4).run(story)


def test_garbage_in_a_queue_is_told_and_dropped_and_the_rest_is_carried_out() -> None:
    async def story(c: Cluster) -> None:
        broker = next(each for each in c.world.brokers if each != c.leader())
        path = request_prefix(broker)  # type: ignore[arg-type]
        for data in (b"", b"\xff", b"[[", b'{"version":1,"change":"open","topic":"t"}'):
            await c.hand.create(path, data, sequential=True)
        await c.hand.create(f"{queue_path(broker)}/nonsense", b"")  # type: ignore[arg-type]
        strange = StateChangeRequest(
            StateChange.START_REPLICA,
            TopicPartition("nowhere", 7),
            0,  # type: ignore[arg-type]
        )
        await c.hand.create(path, encode_request(strange), sequential=True)
        await c.until(lambda: len(c.queue(broker)) == 1, "all requests are read")
        assert await c.send("a") == "NONE"
        assert c.all_run()

    cluster = Cluster()
    cluster.run(story)
    told = [each.detail["where"] for each in cluster.told(EventKind.BAD_INPUT_MET)]
    assert len(set(told)) == 5, told
    refused = [each.detail["error"] for each in cluster.told(EventKind.REQUEST_REFUSED)]
    assert "NotReplicaForPartition" in refused


def test_a_leader_path_of_a_broker_that_is_gone_is_told_until_it_is_removed() -> None:
    async def story(c: Cluster) -> None:
        old = c.leader()
        c.world.kill(old)
        await c.hand.delete(leader_path(AT))
        await c.hand.create(leader_path(AT), encode_leader(LeaderPath(9, 5)))  # type: ignore[arg-type]
        await c.world.sleep(3_000)
        assert c.leader() == 9
        await c.hand.delete(leader_path(AT))
        await c.until(lambda: c.leader() not in (-1, 9, old), "another broker leads")
        assert await c.send("a") == "NONE"

    cluster = Cluster()
    cluster.run(story)
    told = {each.detail["what"] for each in cluster.told(EventKind.BAD_INPUT_MET)}
    assert told == {"a leader path without a session"}


def test_an_epoch_that_goes_back_is_told_and_the_next_leader_is_above_it() -> None:
    async def story(c: Cluster) -> None:
        await c.killed()
        state = c.world.partition_state(AT)
        assert state is not None
        assert state.leader_epoch == 1
        back = PartitionLeadership(state.leader, 0, ControllerEpoch(1), state.isr)  # type: ignore[arg-type]
        await c.hand.set(partition_state_path(AT), encode_partition_state(back))
        await c.killed()
        after = c.world.partition_state(AT)
        assert after is not None
        assert after.leader_epoch == 2
        assert sum(handle.is_running for handle in c.world.brokers.values()) == 1

    cluster = Cluster()
    cluster.run(story)
    assert cluster.told(EventKind.BAD_INPUT_MET)


@pytest.mark.full
def test_a_queue_of_ten_thousand_requests_is_read() -> None:
    async def story(c: Cluster) -> None:
        broker = next(each for each in c.world.brokers if each != c.leader())
        c.world.kill(broker)
        closing = StateChangeRequest(
            StateChange.CLOSE_REPLICA,
            TopicPartition("gone", 1),
            0,  # type: ignore[arg-type]
        )
        path, data = request_prefix(broker), encode_request(closing)  # type: ignore[arg-type]
        for _ in range(MANY):
            await c.hand.create(path, data, sequential=True)
        c.world.start(broker)
        await c.world.eventually(lambda: c.queue(broker) == [], 120_000, "its queue is read")
        await c.in_sync()

    Cluster().run(story)


MANY = 10_000


@pytest.mark.parametrize(
    ("seed", "fault"),
    [(1, f.Kill("leader of t-0", 3_000)), (4, f.ExpireSession("leader of t-0"))],
    ids=["killed", "expired"],
)
def test_what_goes_wrong_in_a_plan_under_v2_is_named_by_a_row(seed: int, fault: f.Fault) -> None:
    topology = PlanTopology(preset=Preset.V2, broker_settings={"session_timeout_ms": 900})
    result = run_plan(Plan(seed=seed, topology=topology, steps=(Step(1_000, fault),)))
    found = find(result)
    assert found is None or found.is_documented, found
    assert result.acknowledged > 10
